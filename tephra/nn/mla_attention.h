// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434) in the form of DeepSeek-V3: keys and
// values come from one narrow latent per token, and a part of each key that all heads share carries
// the position. Training expands the latents; decoding caches them and attends to them as they are.
#pragma once

#include <string>

#include "tephra/autograd/parameter.h"
#include "tephra/nn/attention_layer.h"

namespace tephra {

struct MlaConfig {
  int64_t heads;
  int64_t q_rank;     // width of the queries' latent; 0: they are projected directly
  int64_t kv_rank;    // width of the keys' and values' latent
  int64_t nope_dim;   // of a head's query and key: without position ...
  int64_t rope_dim;   // ... and rotated; the key's is shared by all heads
  int64_t value_dim;  // of a head
  double rope_theta;
  int64_t window;  // keys seen, the current one included; 0: all
  bool bias;       // of the projections from and to the stream, that of direct queries excepted

  int64_t query_dim() const { return nope_dim + rope_dim; }
};

class MlaAttention : public AttentionLayer {
 public:
  MlaAttention(const MlaConfig& config, const ParameterStore& store, const std::string& prefix);

  Tensor forward(const Tensor& h_NH, const LayerContext& context) const override;
  void set_rope_theta(double theta) override { config_.rope_theta = theta; }

  // The cache holds a latent and the shared part of the key per token, and no values.
  static LayerStateSpec state_spec(const MlaConfig& config);

 private:
  // Attention of the queries to this call's own tokens, expanded.
  Tensor attend_expanded(const Tensor& q_NQ, const Tensor& c_NL, const Tensor& r_NR,
                         const LayerContext& context) const;
  // The same with the state's latents, into which these go first.
  Tensor attend_latents(const Tensor& q_NQ, const Tensor& c_NL, const Tensor& r_NR,
                        const LayerContext& context) const;
  double scale() const;

  MlaConfig config_;
  Weights in_weights_;  // queries (or their latent), latent and shared key
  Tensors in_biases_;
  Tensor q_norm_;    // undefined with direct queries,
  Weight q_expand_;  // as this
  Tensor latent_norm_, latent_expand_;
  Weight out_weight_;
  Tensor out_bias_;
};

}  // namespace tephra
