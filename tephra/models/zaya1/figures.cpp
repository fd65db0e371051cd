// SPDX-License-Identifier: Apache-2.0
// Sizes and work that follow from the config.
//
// FLOPs: a multiply-add is two. A token's forward pass is 2 x the weights of the matrix products it
// meets (projections, convolutions, router, one expert or the dense layer, head; no embedding
// lookup, norm, scale or bias), plus, for every key it attends to, 2 x the widths of a query and of
// a value in all heads. Training adds twice that for the backward pass, and attends to the mean
// number of causal keys; decoding to all of `context`, in latent attention to the latents.
#include <algorithm>

#include "tephra/models/zaya1/layers.h"

namespace tephra::zaya1 {
namespace {

// Keys that the tokens of a sequence of `context` see on average.
double mean_keys(int64_t context, int64_t window) {
  const double n = static_cast<double>(context);
  if (window == 0 || window >= context) return (n + 1) / 2;
  const double w = static_cast<double>(window);
  return (w * (w + 1) / 2 + (n - w) * w) / n;
}

int64_t keys_held(int64_t context, int64_t window) {
  return window == 0 ? context : std::min(context, window);
}

bool is_product(const ParameterSpec& spec) {
  switch (spec.kind) {
    case ParameterKind::matrix:
    case ParameterKind::experts:
    case ParameterKind::convolution:
    case ParameterKind::head:
      return true;
    default:
      return false;
  }
}

// Multiply-adds of one query token with one key, in all heads: for the score and for the sum of
// values. The projections that latent attention absorbs when it decodes are counted with the
// weights: they are as large as those that expand.
struct PairWork {
  int64_t train, decode;
};

PairWork pair_work(const Config& c) {
  if (c.attention != AttentionType::mla) {
    const int64_t width = 2 * c.query_heads * c.head_dim;
    return {width, width};
  }
  const MlaDims& m = c.mla;
  return {c.query_heads * (m.nope_dim + m.rope_dim + m.value_dim),
          c.query_heads * (2 * m.kv_rank + m.rope_dim)};
}

}  // namespace

ModelFigures figures(const Config& c, int64_t context) {
  ModelFigures f;
  f.context = context;
  int64_t products = c.tied_embedding ? c.vocab_size * c.hidden : 0;  // weights one token meets
  for (const ParameterSpec& spec : parameters(c)) {
    const int64_t size = spec.shape.numel();
    const int64_t met = spec.kind == ParameterKind::experts ? size / c.num_experts : size;
    f.parameters += size;
    if (is_product(spec)) products += met;
    if (spec.kind == ParameterKind::embedding) continue;
    f.parameters_without_embedding += size;
    f.active_without_embedding += met;
  }
  const PairWork work = pair_work(c);
  double causal = 0, decode = 0;
  for (const LayerConfig& layer : c.layers) {
    const int64_t keys = keys_held(context, layer.window);
    causal += 2.0 * static_cast<double>(work.train) * mean_keys(context, layer.window);
    decode += 2.0 * static_cast<double>(work.decode) * static_cast<double>(keys);

    const LayerStateSpec state = attention_state(c, layer);
    const int64_t bf16_row = 2 * state.kv_width * (state.values_in_keys ? 1 : 2);
    f.kv_cache_bytes_per_token += bf16_row;
    f.kv_cache_bytes += keys * bf16_row;
    f.fixed_state_bytes += 4 * (state.conv_rows * state.conv_width + state.value_width);
  }
  const double dense = 2.0 * static_cast<double>(products);
  f.train_flops_per_token = 3 * (dense + causal);
  f.decode_flops_per_token = dense + decode;
  return f;
}

}  // namespace tephra::zaya1
