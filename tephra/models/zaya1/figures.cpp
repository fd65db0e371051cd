// SPDX-License-Identifier: Apache-2.0
// Sizes and work that follow from the config.
//
// FLOPs: a multiply-add is two. A token's forward pass is 2 x the weights of the matrix products it
// meets (projections, convolutions, router, one expert, head; no embedding lookup, norm, scale or
// bias), plus 4 x head_dim x query heads for every key it attends to. Training adds twice that for
// the backward pass, and attends to the mean number of causal keys; decoding to all of `context`.
#include <algorithm>

#include "tephra/models/zaya1/config.h"

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
  const double per_key = 4.0 * static_cast<double>(c.head_dim * c.query_heads);
  double causal = 0, decode = 0;
  int64_t cached_keys = 0;
  for (const LayerConfig& layer : c.layers) {
    causal += per_key * mean_keys(context, layer.window);
    decode += per_key * static_cast<double>(keys_held(context, layer.window));
    cached_keys += keys_held(context, layer.window);
  }
  const double dense = 2.0 * static_cast<double>(products);
  f.train_flops_per_token = 3 * (dense + causal);
  f.decode_flops_per_token = dense + decode;

  const int64_t bf16_row = 2 * c.kv_heads * c.head_dim * 2;  // a key and a value
  f.kv_cache_bytes_per_token = c.num_layers * bf16_row;
  f.kv_cache_bytes = cached_keys * bf16_row;
  const int64_t conv_rows = c.conv0_width - 1 + c.conv1_width - 1;
  f.fixed_state_bytes = c.num_layers * (conv_rows * c.conv_channels() + c.delayed_width()) * 4;
  return f;
}

}  // namespace tephra::zaya1
