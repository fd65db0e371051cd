// SPDX-License-Identifier: Apache-2.0
// Products of few tokens with a large matrix, bounded by reading it. A block has some rows of the
// matrix and holds them in registers as they are stored (bf16, or quantised): each of its eight
// waves an eighth of the columns. Tokens pass by sixteen at a time, from wherever they lie. The sum
// of a token and a row is always formed in the same order: over the wave's columns, then over the
// waves. So it has the same bits whatever else is in the batch, and however many rows a block
// takes; a quantised matrix gives those of its weights in bf16.
#pragma once

#include "tephra/base/number.h"
#include "tephra/device/gpu/packed.h"
#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

inline constexpr int kSkinnyThreads = 256, kSkinnyWaves = 8;
inline constexpr int kSkinnyTokens = 16, kSkinnyRows = 8;
// Columns that a wave multiplies at once, and columns of the matrix for each such step.
inline constexpr int kSkinnyStep = 32, kSkinnyColumns = kSkinnyWaves * kSkinnyStep;

// A thread's place: it has eight columns of row `row` of the matrix, and of tokens `row` and
// `row` + 8.
struct SkinnyLane {
  int wave = static_cast<int>(threadIdx.x) / 32;
  int row = static_cast<int>(threadIdx.x) % 32 / 4;
  int column = static_cast<int>(threadIdx.x) % 4 * 8;
};

// sums += 16 tokens times 8 rows over kSkinnyStep columns. Which term comes when is arranged so
// that a thread's eight columns adjoin in memory.
__device__ inline void multiply_skinny(float (&sums)[4], const Bits128& low, const Bits128& high,
                                       const Bits128& weight) {
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const uint32_t a[4] = {low.at[2 * s], high.at[2 * s], low.at[2 * s + 1], high.at[2 * s + 1]};
    const uint32_t b[2] = {weight.at[2 * s], weight.at[2 * s + 1]};
    multiply_16x8x16(sums, a, b);
  }
}

// How a matrix is stored, as a type: what a thread holds of kTiles times kSkinnyRows rows of
// kSteps * kSkinnyColumns columns. fetch(matrix, rows) reads them, rows(tile) being the first row
// of a tile, a multiple of kSkinnyRows; at(tile, step) is what a thread multiplies by, called by
// whole waves. kBlocks of threads should find room on a multiprocessor at once, so that some read
// while others add up.
struct Bf16Matrix {
  static constexpr bool kPacked = false;

  template <int kTiles, int kSteps>
  struct Held {
    static constexpr int kBlocks = kTiles * kSteps <= 8 ? 3 : 2;
    Bits128 held[kTiles][kSteps];

    template <class Rows>
    __device__ void fetch(const void* matrix, const Rows& rows) {
      constexpr int kDepth = kSteps * kSkinnyColumns;
      const SkinnyLane lane;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const bf16* from = static_cast<const bf16*>(matrix) + (rows(i) + lane.row) * kDepth +
                           lane.wave * (kDepth / kSkinnyWaves);
#pragma unroll
        for (int s = 0; s < kSteps; ++s) {
          held[i][s] = load_once(from + s * kSkinnyStep + lane.column);
        }
      }
    }
    __device__ const Bits128& at(int tile, int step) const { return held[tile][step]; }
  };

  __device__ static float value(const void* matrix, int width, int64_t row, int64_t column) {
    return float(static_cast<const bf16*>(matrix)[row * width + column]);
  }
};

// Steps are groups of columns. Of four steps' scales each of a row's four threads holds one.
template <PackedFormat kFormat>
struct PackedSkinny {
  static constexpr bool kPacked = true;
  using Panels = PackedPanels<kFormat>;
  static_assert(Panels::kColumns == kSkinnyStep && Panels::kRows % kSkinnyRows == 0);

  template <int kTiles, int kSteps>
  struct Held {
    static constexpr int kBlocks = kTiles * kSteps * PackedEight<kFormat>::kWords <= 16 ? 3 : 2;
    PackedEight<kFormat> held[kTiles][kSteps];
    uint32_t scales[kTiles][(kSteps + 3) / 4];

    template <class Rows>
    __device__ void fetch(const void* matrix, const Rows& rows) {
      const Panels panels{static_cast<const std::byte*>(matrix), kSteps * kSkinnyWaves};
      const SkinnyLane lane;
      const int first = lane.wave * kSteps, quarter = lane.column / 8;
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const int64_t row = rows(i) + lane.row;
#pragma unroll
        for (int s = 0; s < kSteps; ++s) held[i][s] = panels.codes(row, first + s, quarter);
#pragma unroll
        for (int s = 0; s < kSteps; s += 4) {
          const int own = s + quarter < kSteps ? s + quarter : kSteps - 1;
          scales[i][s / 4] = panels.scale(row, first + own).bits * 0x10001u;
        }
      }
    }
    __device__ Bits128 at(int tile, int step) const {
      const SkinnyLane lane;
      return held[tile][step].weights(
          shuffle_from(scales[tile][step / 4], lane.row * 4 + step % 4));
    }
  };

  __device__ static float value(const void* matrix, int width, int64_t row, int64_t column) {
    const Panels panels{static_cast<const std::byte*>(matrix), width / Panels::kColumns};
    return float(bf16(panels.value(row, column)));
  }
};

// What the waves found of up to kTokens tokens, to be added up.
template <int kTiles, int kTokens = kSkinnyTokens>
struct SkinnySums {
  static constexpr int kWidth = kTiles * kSkinnyRows;
  float at[kSkinnyWaves][kTokens][kWidth];

  // Of a token and a row of the block, after __syncthreads.
  __device__ float total(int token, int row) const {
    float sum = at[0][token][row];
    for (int w = 1; w < kSkinnyWaves; ++w) sum += at[w][token][row];
    return sum;
  }
};

// A thread's eight columns of two tokens: `row` of its lane, and eight further.
struct SkinnyPair {
  Bits128 low, high;
};

// sums = products of kGroups times sixteen tokens; part(step, group): what the thread has of them.
template <int kTiles, int kSteps, int kGroups = 1, int kTokens, class Weights, class Part>
__device__ void multiply_parts(const Weights& weights, const Part& part,
                               SkinnySums<kTiles, kTokens>& sums) {
  const SkinnyLane lane;
  float own[kGroups][kTiles][4] = {};
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const Bits128 weight = weights.at(i, s);
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const SkinnyPair tokens = part(s, g);
        multiply_skinny(own[g][i], tokens.low, tokens.high, weight);
      }
    }
  }
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int token = g * kSkinnyTokens + c / 2 * 8;
        if (token >= kTokens) continue;
        sums.at[lane.wave][token + lane.row][i * kSkinnyRows + column + c % 2] = own[g][i][c];
      }
    }
  }
}

// A thread's part of the tokens' columns: tokens(i) is where token i of the group begins, or null
// where there is none.
template <int kSteps, class Tokens>
struct SkinnyReader {
  const bf16 *low, *high;

  __device__ explicit SkinnyReader(const Tokens& tokens) {
    const SkinnyLane lane;
    const int first = lane.wave * (kSteps * kSkinnyStep) + lane.column;
    low = tokens(lane.row);
    high = tokens(lane.row + 8);
    if (low) low += first;
    if (high) high += first;
  }
  __device__ SkinnyPair operator()(int step, int) const {
    SkinnyPair pair{};
    if (low) pair.low = *reinterpret_cast<const Bits128*>(low + step * kSkinnyStep);
    if (high) pair.high = *reinterpret_cast<const Bits128*>(high + step * kSkinnyStep);
    return pair;
  }
};

// tokens(i): where token i < 16 of the group begins, or null where there is none.
template <int kTiles, int kSteps, class Weights, class Tokens>
__device__ void multiply_tokens(const Weights& weights, const Tokens& tokens,
                                SkinnySums<kTiles>& sums) {
  multiply_parts<kTiles, kSteps>(weights, SkinnyReader<kSteps, Tokens>(tokens), sums);
}

}  // namespace tephra::gpu
