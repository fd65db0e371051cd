// SPDX-License-Identifier: Apache-2.0
// Grouped-query attention as in Llama: groups of query heads share a key and value head, queries
// and keys are rotated. With as many KV heads as query heads it is multi-head attention.
#pragma once

#include <string>

#include "tephra/autograd/parameter.h"
#include "tephra/nn/attention_layer.h"

namespace tephra {

struct GqaConfig {
  int64_t query_heads;
  int64_t kv_heads;
  int64_t head_dim;
  int64_t rotary_dim;
  double rope_theta;
  int64_t window;  // keys seen, the current one included; 0: all
  bool bias;
};

class GqaAttention : public AttentionLayer {
 public:
  GqaAttention(const GqaConfig& config, const ParameterStore& store, const std::string& prefix);

  Tensor forward(const Tensor& h_NH, const LayerContext& context) const override;
  void set_rope_theta(double theta) override { config_.rope_theta = theta; }

  static LayerStateSpec state_spec(const GqaConfig& config);

 private:
  GqaConfig config_;
  Weights qkv_weights_;
  Tensors qkv_biases_;
  Weight out_weight_;
  Tensor out_bias_;
};

}  // namespace tephra
