// SPDX-License-Identifier: Apache-2.0
// What the kernels of a decode step read and write, as plain pointers to device memory, and the
// phases of a step in order. Each phase is one kernel; what it computes is what the ops compute,
// rounded where they round (docs/decisions/0054-a-decode-step-is-a-graph-of-fused-kernels.md).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tephra/base/number.h"
#include "tephra/device/cpu/packed.h"
#include "tephra/models/decode_step.h"
#include "tephra/ops/qk_norm.h"

namespace tephra::zaya1 {

inline constexpr int kDecodeRows = 128;     // of a step, at most
inline constexpr int kDecodeHeadDim = 128;  // of queries, keys and values
inline constexpr int kDecodeRouter = 256;   // width of the router
inline constexpr int kDecodeParts = 64;     // pieces of a sequence's keys, at most
inline constexpr int kDecodeNormedRows =
    8;                                     // up to here products normalise their inputs themselves
inline constexpr int kDecodeExperts = 31;  // at most
inline constexpr int kDecodeOrderedRows = 128;  // from here on rows are kept in that order, too

// A matrix as it is stored, or several that adjoin: bf16, or quantised.
struct DecodeMatrix {
  const void* data = nullptr;
  std::optional<PackedFormat> packed = {};
};

struct DecodeMerge {
  const bf16 *hidden_scale, *hidden_bias, *residual_scale, *residual_bias;
};

struct DecodeLayer {
  const bf16* input_norm;
  DecodeMatrix qkv;  // [C + V, H]
  const bf16 *conv0, *conv0_bias, *conv1, *conv1_bias, *temperature;
  DecodeMatrix out;  // [H, Q]
  DecodeMerge after_attention;
  const bf16* mlp_norm;
  const bf16 *router_down, *router_down_bias;
  const bf16* router_scale;  // of the layer before; null in the first
  const bf16 *router_norm, *fc1, *fc1_bias, *fc2, *fc2_bias, *router_out;
  const float* balancing;
  DecodeMatrix gate_up, down;  // [E, 2F, H], [E, H, F]
  DecodeMerge after_mlp;

  bf16 *keys, *values;             // [rows, V]
  bf16 *conv_state, *value_state;  // [slots, 2, C], [slots, V / 2]
  int64_t window;
  int theta;  // which of the plan's
};

struct DecodeSizes {
  int hidden, query_heads, kv_heads, expert_hidden, experts, rotary_dim;
  int64_t vocabulary, usable;
  float eps;
  Temperature temperature;
  int64_t block_tokens, table_width;

  constexpr int group() const { return query_heads / kv_heads; }
  constexpr int queries() const { return query_heads * kDecodeHeadDim; }
  constexpr int values() const { return kv_heads * kDecodeHeadDim; }
  constexpr int channels() const { return queries() + values(); }
};

// Room for a step of kDecodeRows.
struct DecodeWork {
  int32_t *tokens, *positions, *slots;
  const int32_t* tables;
  float* frequencies;  // [thetas, rotary_dim / 2], the same in all steps
  float* rotary;       // [thetas, rows, rotary_dim]
  float* stream;
  bf16 *normed, *latents, *convolved, *attended, *router, *activated;
  float* chosen_weight;
  int32_t* chosen;    // [layers, rows]
  int32_t* replayed;  // [layers, rows]: an expert to take instead, or -1
  float* parts;       // of attention: [rows, kv heads, kDecodeParts, group, head dim + 2]
  int32_t* arrived;   // [rows, kv heads], 0 between steps
  float* logits;
  float* best_logit;                 // [rows, pieces]
  int32_t* best_token;               // [rows, pieces]
  DecodeStep::Likeliest* likeliest;  // [rows]
  uint64_t* told;                    // the same, in the host's memory: one word each
  bf16* ordered;  // `normed` in the order of decode_ordered, from kDecodeOrderedRows on
};
inline constexpr int kDecodeBestPieces = 64;

struct DecodePlan {
  Device device;
  DecodeSizes sizes;
  std::vector<double> thetas;
  DecodeMatrix embedding, head;  // [vocabulary, H]
  const bf16 *final_norm, *entry_scale, *entry_bias;
  std::vector<DecodeLayer> layers;
  DecodeMemory memory;  // holds on to what the layers point to
};

// Whether the kernels have been compiled for matrices of so many columns.
bool decode_takes_depth(int64_t columns);

std::unique_ptr<DecodeStep> make_decode_step(DecodePlan plan);

// --- the phases; `rows` of them ---

// frequencies, once.
void decode_prepare(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work);
// Embeds the tokens and lets the stream begin with them; sines and cosines of the positions.
void decode_enter(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows);
// normed = the normed stream. Where rows are few the products below do it themselves.
void decode_norm(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                 const bf16* weight);
// latents = queries, keys and values of the normed stream.
void decode_project(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                    const DecodeLayer& layer);
// convolved = queries and keys after both convolutions.
void decode_convolve(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                     const DecodeLayer& layer);
// Means, norms and rotation, the shifted value, new rows of the caches and new fixed state;
// attended = attention over the caches.
void decode_attend(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                   const DecodeLayer& layer);
// Both of them at once. Only where decode_mixes, and for layers whose rows see at most some
// kDecodeNearKeys keys: more of them want more blocks. The bits are the same.
inline constexpr int64_t kDecodeNearKeys = 2048;
bool decode_mixes(const DecodePlan& plan, int rows);
void decode_mix(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                const DecodeLayer& layer);
// stream = what attention says, merged into it.
void decode_return(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                   const DecodeLayer& layer);
// router = the narrow projection, with a part of the layer before.
void decode_narrow(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                   const DecodeLayer& layer);
// chosen, chosen_weight.
void decode_choose(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                   const DecodeLayer& layer, const int32_t* replayed, int32_t* chosen);
// activated = SwiGLU of the chosen expert's first product; stream = its second, merged.
void decode_expert_up(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                      const DecodeLayer& layer, const int32_t* chosen);
void decode_expert_down(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work,
                        int rows, const DecodeLayer& layer, const int32_t* chosen);
// logits of the normed rows, and the likeliest tokens.
void decode_head(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows);
// The usable tokens of each row whose logits are at least least[row]: `counts` of them, of which
// the first DecodeStep::kMostCandidates that came are in `found`. Counts are 0 before.
struct DecodeCandidates {
  const float* least;  // [rows]
  int32_t* counts;
  DecodeStep::Likeliest* found;  // [rows, kMostCandidates]
};
void decode_find(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                 const DecodeCandidates& candidates);
// The likeliest tokens become the next ones.
void decode_go_on(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows);

}  // namespace tephra::zaya1
