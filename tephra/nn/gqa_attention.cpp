// SPDX-License-Identifier: Apache-2.0
// Shapes: N tokens, H stream width, Q = query heads * head width, K = KV heads * head width.
#include "tephra/nn/gqa_attention.h"

#include <cmath>

#include "tephra/autograd/variable.h"
#include "tephra/ops/attention.h"
#include "tephra/ops/linear.h"
#include "tephra/ops/rope.h"

namespace tephra {

GqaAttention::GqaAttention(const GqaConfig& config, const ParameterStore& store,
                           const std::string& prefix)
    : config_(config), out_weight_(store.weight(prefix + "o_proj.weight")) {
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    qkv_weights_.push_back(store.weight(prefix + name + ".weight"));
    if (config.bias) qkv_biases_.push_back(store[prefix + name + ".bias"]);
  }
  if (config.bias) out_bias_ = store[prefix + "o_proj.bias"];
}

LayerStateSpec GqaAttention::state_spec(const GqaConfig& config) {
  return {.kv_width = config.kv_heads * config.head_dim, .window = config.window};
}

Tensor GqaAttention::forward(const Tensor& h_NH, const LayerContext& context) const {
  const int64_t Q = config_.query_heads * config_.head_dim;
  const int64_t K = config_.kv_heads * config_.head_dim;
  const Tensor qkv = linear(h_NH, qkv_weights_, qkv_biases_);  // [N, Q + 2K]
  const Tensor qk = rope(slice_columns(qkv, 0, Q + K), context.segments.position_N,
                         {config_.head_dim, config_.rotary_dim, config_.rope_theta});

  const auto [k_NK, v_NK] =
      remembered(slice_columns(qk, Q, Q + K), slice_columns(qkv, Q + K, Q + 2 * K), context);
  const double scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
  const Tensor o_NQ =
      attention(slice_columns(qk, 0, Q), k_NK, v_NK, context.ranges, config_.head_dim, scale).o;
  if (context.announce_next) (*context.announce_next)();
  return linear(o_NQ, out_weight_, out_bias_);
}

}  // namespace tephra
