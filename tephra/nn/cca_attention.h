// SPDX-License-Identifier: Apache-2.0
// Compressed Convolutional Attention (Figliolia et al., 2025), as ZAYA1 uses it: queries and keys
// are projected into a narrow latent space, mixed over time by two short causal convolutions, and
// attend there; half of each value comes from the token before.
#pragma once

#include <string>

#include "tephra/autograd/parameter.h"
#include "tephra/core/segments.h"
#include "tephra/nn/state.h"

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

  int64_t conv_channels() const { return (query_heads + kv_heads) * head_dim; }
};

// What a layer is told about the tokens it runs on.
struct LayerContext {
  const Segments& segments;
  const KeyRanges& ranges;  // rows of this call's keys, or of the state's when there is one
  LayerState* state = nullptr;
  const Tensor* write_row_N = nullptr;  // where new keys and values go in the state
};

class CcaAttention {
 public:
  CcaAttention(const CcaConfig& config, const ParameterStore& store, const std::string& prefix);

  // h_NH: the normed stream.
  Tensor forward(const Tensor& h_NH, const LayerContext& context) const;

  static LayerStateSpec state_spec(const CcaConfig& config);

 private:
  // Convolved, averaged, normalised and rotated queries and keys side by side.
  Tensor queries_and_keys(const Tensor& z_NC, const LayerContext& context) const;
  Tensor values(const Tensor& v_NV, const LayerContext& context) const;

  CcaConfig config_;
  Tensors qkv_weights_, qkv_biases_;  // queries, keys, current and delayed values
  Tensors value_biases_;
  Tensor conv0_weight_, conv0_bias_, conv1_weight_, conv1_bias_;
  Tensor temp_;
  Tensor out_weight_, out_bias_;
};

}  // namespace tephra
