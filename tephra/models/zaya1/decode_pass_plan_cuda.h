// SPDX-License-Identifier: Apache-2.0
// What all blocks of decode_pass_cuda.cu know: the shape of the model, who does what, and where
// letters are left.
#pragma once

#include "tephra/models/zaya1/decode_letters_cuda.h"
#include "tephra/models/zaya1/decode_mixing.h"

namespace tephra::zaya1 {

// The published shape.
inline constexpr int kPassWidth = 2048, kPassGroup = 4, kPassKvHeads = 2;
inline constexpr int kPassHeads = kPassGroup * kPassKvHeads, kPassQueries = kPassHeads * kHeadDim;
inline constexpr int kPassValues = kPassKvHeads * kHeadDim,
                     kPassChannels = kPassQueries + kPassValues;
inline constexpr int kWidthSteps = kPassWidth / gpu::kSkinnyColumns;
inline constexpr int kQuerySteps = kPassQueries / gpu::kSkinnyColumns;

// Blocks with rows of the matrices, a panel of each; one more has the router's network.
inline constexpr int kPassBlocks = 128, kPanelRows = 16,
                     kPanelTiles = kPanelRows / gpu::kSkinnyRows;
static_assert(kPassBlocks * kPanelRows == kPassWidth);
// The projections are fewer panels; the blocks behind theirs narrow, convolve a second time and put
// the parts of attention together.
inline constexpr int kProjectBlocks = (kPassChannels + kPassValues) / kPanelRows;
inline constexpr int kOtherBlocks = kPassBlocks - kProjectBlocks;
static_assert(kOtherBlocks * gpu::kSkinnyRows == kDecodeRouter);
static_assert(kOtherBlocks * 32 == kPassQueries, "a lane has a column");
static_assert((kPassBlocks + kOtherBlocks) * gpu::kSkinnyRows == kPassChannels);
static_assert(kPassKvHeads * kDecodeParts == kPassBlocks, "a block has a part of a KV head's keys");

// Threads that multiply; a warpgroup more brings what they multiply with
// (decode_pass_copies_cuda.h).
inline constexpr int kPassThreads = gpu::kSkinnyThreads, kPassCopyThreads = 128;
__device__ inline void pass_sync() { gpu::sync_first<kPassThreads>(); }

inline constexpr int kPartLetters = kPassGroup * (kHeadDim + 2);

// An expert is guessed before attention has said its part, and then chosen.
enum PassTurn { kGuess, kChoice, kPassTurns };

struct PassLetters {
  alignas(128) Letter after_attention[kPassWidth], after_mlp[kPassWidth];  // the stream, f32
  Letter latents[(kPassChannels + kPassValues) / 2];                       // two of bf16, as below
  Letter convolved[kPassChannels / 2];
  Letter parts[kPassKvHeads][kDecodeParts][kPartLetters];  // f32; then largest and total of heads
  Letter attended[kPassQueries / 2];
  // From here on for each turn.
  Letter states[kPassTurns][kDecodeRouter / 2];
  Letter choice[kPassTurns][kPassBlocks][4];  // expert and weight, for each block its own
  Letter activated[kPassTurns][kPassWidth / 2];
  uint32_t time;  // of the last letters
};

struct PassPlan {
  const DecodeLayer* layers;
  int count;
  DecodeWork work;
  DecodeSizes sizes;
  PassLetters* letters;
};

}  // namespace tephra::zaya1
