// SPDX-License-Identifier: Apache-2.0
// Compressed Convolutional Attention (Figliolia et al., 2025), as ZAYA1 uses it: queries and keys
// are projected into a narrow latent space, mixed over time by two short causal convolutions, and
// attend there; half of each value comes from the token before. Each of these can be left out, as
// in the paper's ablations.
#pragma once

#include <string>

#include "tephra/autograd/parameter.h"
#include "tephra/nn/attention_layer.h"
#include "tephra/ops/cca_qkv.h"

namespace tephra {

struct CcaConfig {
  int64_t query_heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t conv0_width;  // depthwise
  int64_t conv1_width;  // dense within a head
  int64_t rotary_dim;
  double rope_theta;
  int64_t window;  // keys seen, the current one included; 0: all
  bool bias;
  int64_t conv_count = 2;  // 1: only the depthwise one; 0: none, the latents stay as they are
  bool qk_mean = true;     // adds the mean of query and key latents
  bool value_shift = true;
  Temperature temperature = Temperature::linear;

  int64_t conv_channels() const { return (query_heads + kv_heads) * head_dim; }
};

class CcaAttention : public AttentionLayer {
 public:
  CcaAttention(const CcaConfig& config, const ParameterStore& store, const std::string& prefix);

  Tensor forward(const Tensor& h_NH, const LayerContext& context) const override;
  void set_rope_theta(double theta) override { config_.rope_theta = theta; }

  static LayerStateSpec state_spec(const CcaConfig& config);

 private:
  Tensor convolved(const Tensor& z_NC, const LayerContext& context) const;
  // Convolved, averaged, normalised and rotated queries and keys side by side, and values.
  struct Heads {
    Tensor qk_NC, v_NV;
  };
  Heads heads(const Tensor& qkv, const LayerContext& context) const;
  bool is_fused(const Tensor& z_NC, const LayerContext& context) const;
  CcaConvs convs() const;
  CcaHeadsForm form() const;
  Tensor queries_and_keys(const Tensor& z_NC, const LayerContext& context) const;
  Tensor shifted(const Tensor& v_NV, const LayerContext& context) const;

  CcaConfig config_;
  Weights qkv_weights_;   // queries, keys, values: current and delayed, or one
  Tensors qkv_biases_;    // of the same
  Tensors value_biases_;  // of shifted values
  Tensor conv0_weight_, conv0_bias_, conv1_bias_;
  Weight conv1_weight_;
  Tensor temp_;
  Weight out_weight_;
  Tensor out_bias_;
};

}  // namespace tephra
