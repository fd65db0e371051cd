// SPDX-License-Identifier: Apache-2.0
// ZAYA1 (Zyphra, 2025-2026): Compressed Convolutional Attention and a mixture of experts in every
// layer, an fp32 residual stream with learned scales, a router that averages over depth. Other
// attention and a dense feed-forward layer can take their places, for comparison.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "tephra/models/model.h"
#include "tephra/models/zaya1/config.h"
#include "tephra/nn/attention_layer.h"
#include "tephra/nn/dense_ffn.h"
#include "tephra/nn/experts.h"
#include "tephra/nn/router.h"
#include "tephra/ops/merge_norm.h"

namespace tephra::zaya1 {

struct Moe {
  Router router;
  Experts experts;
};

struct Layer {
  Tensor input_norm;
  std::unique_ptr<AttentionLayer> attention;
  ResidualScale after_attention;
  Tensor mlp_norm;
  std::variant<Moe, DenseFfn> mlp;
  ResidualScale after_mlp;
};

class Zaya1 : public Model {
 public:
  Zaya1(const Config& config, const LoadOptions& options);

  const Config& config() const { return config_; }
  const TokenIds& tokens() const override { return tokens_; }
  int64_t context_limit() const override { return config_.max_positions; }
  StateSpec state_spec() const override;
  ParameterStore& parameters() override { return store_; }
  std::vector<BalancedRouter> routers() const override;
  Json config_json() const override { return native_config(config_); }
  void set_rope_theta(double theta) override;

  Tensor forward(const Tensor& ids_N, const Segments& segments,
                 Decoding* decoding = nullptr) const override;
  Tensor logits(const Tensor& h_NH) const override;
  Tensor loss(const Tensor& h_NH, const Tensor& targets_N, double scale) const override;
  std::unique_ptr<DecodeStep> decode_step(const DecodeMemory& memory) override;

 private:
  // What layer i's experts, or its dense layer, say of the normed stream. states_NR: the router's,
  // of the layer before, replaced by this one's.
  RoutedRows mlp(size_t i, const Tensor& h_NH, Tensor& states_NR) const;

  // Has idle threads fetch what merges the stream, the weights of the router and those of the next
  // layer: which experts come between them, nobody knows yet.
  void announce_after_attention(size_t i, int64_t rows) const;

  Config config_;
  TokenIds tokens_;
  ParameterStore store_;
  Weight embedding_;
  ResidualScale entry_;
  std::vector<Layer> layers_;
  Tensor final_norm_;
  Weight head_weight_;
  Tensor head_bias_;
};

std::unique_ptr<Model> create(const Config& config, const LoadOptions& options);

}  // namespace tephra::zaya1
