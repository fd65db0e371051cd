// SPDX-License-Identifier: Apache-2.0
// Shapes: N tokens, H stream width, C = (query heads + KV heads) * head width, V = KV heads * head
// width. Queries come first in C, then keys; the current half of V first, then the delayed half.
#include "tephra/nn/cca_attention.h"

#include <cmath>

#include "tephra/autograd/variable.h"
#include "tephra/core/weight_ahead.h"
#include "tephra/ops/add_bias.h"
#include "tephra/ops/attention.h"
#include "tephra/ops/cca_heads.h"
#include "tephra/ops/cca_qkv.h"
#include "tephra/ops/depthwise_conv.h"
#include "tephra/ops/grouped_conv.h"
#include "tephra/ops/linear.h"
#include "tephra/ops/mask_rows.h"
#include "tephra/ops/qk_mean.h"
#include "tephra/ops/qk_norm.h"
#include "tephra/ops/rope.h"
#include "tephra/ops/tail_state.h"
#include "tephra/ops/value_shift.h"

namespace tephra {

CcaAttention::CcaAttention(const CcaConfig& config, const ParameterStore& store,
                           const std::string& prefix)
    : config_(config) {
  const std::string qkv = prefix + "qkv_proj.";
  const auto project = [&](const std::string& name, bool shifted) {
    qkv_weights_.push_back(store.weight(qkv + name + ".weight"));
    if (!config.bias) return;
    const Tensor& bias = store[qkv + name + ".bias"];
    qkv_biases_.push_back(shifted ? Tensor() : bias);
    if (shifted) value_biases_.push_back(bias);
  };
  project("q_proj", false);
  project("k_proj", false);
  if (config.value_shift) {
    project("v_proj_current", true);
    project("v_proj_delayed", true);
  } else {
    project("v_proj", false);
  }
  if (config.conv_count >= 1) {
    conv0_weight_ = store[qkv + "conv_qk_depthwise.weight"];
    conv0_bias_ = store[qkv + "conv_qk_depthwise.bias"];
  }
  if (config.conv_count >= 2) {
    conv1_weight_ = store.weight(qkv + "conv_qk_grouped.weight");
    conv1_bias_ = store[qkv + "conv_qk_grouped.bias"];
  }
  if (config.temperature != Temperature::none) temp_ = store[prefix + "qk_norm.temp"];
  out_weight_ = store.weight(prefix + "o_proj.weight");
  if (config.bias) out_bias_ = store[prefix + "o_proj.bias"];
}

LayerStateSpec CcaAttention::state_spec(const CcaConfig& config) {
  int64_t conv_rows = 0;
  if (config.conv_count >= 1) conv_rows += config.conv0_width - 1;
  if (config.conv_count >= 2) conv_rows += config.conv1_width - 1;
  return {.kv_width = config.kv_heads * config.head_dim,
          .window = config.window,
          .conv_rows = conv_rows,
          .conv_width = config.conv_count > 0 ? config.conv_channels() : 0,
          .value_width = config.value_shift ? config.kv_heads * config.head_dim / 2 : 0};
}

Tensor CcaAttention::convolved(const Tensor& z_NC, const LayerContext& context) const {
  if (config_.conv_count == 0) return z_NC;
  const Tensor left = context.state ? context.state->conv : Tensor();
  // The stream before a document is zero, not what the first convolution would say of it: its
  // outputs just before the document (lead) are therefore its bias, and the second one sees those.
  const int64_t lead_rows = config_.conv_count == 2 ? config_.conv1_width - 1 : 0;
  const auto [u_NC, lead] =
      depthwise_conv(z_NC, conv0_weight_, conv0_bias_, context.segments, left, lead_rows);
  if (left) {
    context.state->conv = tail_state(z_NC, context.segments, left, left.dim(1));
    if (context.kept_rows) {
      context.state->conv_kept = rows_up_to(z_NC, *context.kept_rows, left.dim(1));
    }
  }
  if (config_.conv_count == 1) return u_NC;
  return grouped_conv(u_NC, conv1_weight_.tensor(), conv1_bias_, context.segments, lead);
}

CcaConvs CcaAttention::convs() const {
  return {conv0_weight_, conv0_bias_, conv1_weight_.tensor(), conv1_bias_};
}

CcaHeadsForm CcaAttention::form() const {
  return {config_.query_heads,
          config_.kv_heads,
          config_.temperature,
          {config_.head_dim, config_.rotary_dim, config_.rope_theta}};
}

bool CcaAttention::is_fused(const Tensor& z_NC, const LayerContext& context) const {
  return config_.qk_mean && config_.conv_count == 2 && !context.state &&
         !conv1_weight_.is_packed() && has_fused_cca_qkv(z_NC, convs(), form());
}

CcaAttention::Heads CcaAttention::heads(const Tensor& qkv, const LayerContext& context) const {
  const int64_t C = config_.conv_channels(), all = qkv.cols();
  Heads heads;
  if (is_fused(qkv, context)) {
    const Tensor z = config_.value_shift ? qkv : slice_columns(qkv, 0, C);
    const Tensor out = cca_qkv(z, convs(), temp_, context.segments, form());
    heads = {slice_columns(out, 0, C), slice_columns(config_.value_shift ? out : qkv, C, all)};
  } else {
    const Tensor v_NV = slice_columns(qkv, C, all);
    heads.qk_NC = queries_and_keys(slice_columns(qkv, 0, C), context);
    heads.v_NV = config_.value_shift ? shifted(v_NV, context) : v_NV;
  }
  // A token before the document projects to the bias, so it is added after the shift.
  if (!value_biases_.empty()) heads.v_NV = add_bias(heads.v_NV, value_biases_);
  return heads;
}

Tensor CcaAttention::queries_and_keys(const Tensor& z_NC, const LayerContext& context) const {
  const CcaHeadsForm form = this->form();
  Tensor qk_NC = convolved(z_NC, context);
  if (config_.qk_mean && z_NC.device().kind == Device::Kind::gpu) {  // in one pass
    return cca_heads(z_NC, qk_NC, temp_, context.segments.position_N, form);
  }
  if (config_.qk_mean) qk_NC = qk_mean(z_NC, qk_NC, config_.query_heads, config_.kv_heads);
  qk_NC = qk_norm(qk_NC, temp_, config_.query_heads, config_.kv_heads, config_.temperature);
  return rope(qk_NC, context.segments.position_N, form.rope);
}

Tensor CcaAttention::shifted(const Tensor& v_NV, const LayerContext& context) const {
  const Tensor left = context.state ? context.state->value : Tensor();  // [sequences, 1, V / 2]
  if (left) {
    const int64_t half = v_NV.cols() / 2;
    const Tensor delayed_NV = slice_columns(v_NV, half, 2 * half);
    context.state->value = tail_state(delayed_NV, context.segments, left, 1);
    if (context.kept_rows) {
      context.state->value_kept = rows_up_to(delayed_NV, *context.kept_rows, 1);
    }
  }
  return value_shift(v_NV, context.segments, left);
}

Tensor CcaAttention::forward(const Tensor& h_NH, const LayerContext& context) const {
  const int64_t C = config_.conv_channels();
  const int64_t Q = config_.query_heads * config_.head_dim;
  const Tensor& real_N = context.segments.real_N;
  const Tensor heard_NH = real_N ? mask_rows(h_NH, real_N) : h_NH;
  const Tensor before = context.state ? context.state->conv : Tensor();
  // Not the output's weights: attention has its own memory to read before them.
  read_ahead(h_NH.rows(), {&conv0_weight_, &conv0_bias_, &before, &conv1_bias_},
             {only(conv1_weight_)});
  const Tensor qkv = linear(heard_NH, qkv_weights_, qkv_biases_);  // [N, C + V]
  const Heads own = heads(qkv, context);

  const Tensor q_NQ = slice_columns(own.qk_NC, 0, Q);
  const auto [k_NV, v_NV] = remembered(slice_columns(own.qk_NC, Q, C), own.v_NV, context);
  const double scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
  const Tensor o_NQ = attention(q_NQ, k_NV, v_NV, context.ranges, config_.head_dim, scale).o;
  if (context.announce_next) (*context.announce_next)();
  return linear(o_NQ, out_weight_, out_bias_);
}

}  // namespace tephra
