// SPDX-License-Identifier: Apache-2.0
// ZAYA1 (Zyphra, 2025-2026): Compressed Convolutional Attention and a mixture of experts in every
// layer, an fp32 residual stream with learned scales, a router that averages over depth.
#pragma once

#include <memory>
#include <vector>

#include "tephra/models/model.h"
#include "tephra/models/zaya1/config.h"
#include "tephra/nn/cca_attention.h"
#include "tephra/nn/experts.h"
#include "tephra/nn/router.h"
#include "tephra/ops/merge_norm.h"

namespace tephra::zaya1 {

struct Layer {
  Tensor input_norm;
  CcaAttention attention;
  ResidualScale after_attention;
  Tensor expert_norm;
  Router router;
  Experts experts;
  ResidualScale after_experts;
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

  Tensor forward(const Tensor& ids_N, const Segments& segments,
                 Decoding* decoding = nullptr) const override;
  Tensor logits(const Tensor& h_NH) const override;
  Tensor loss(const Tensor& h_NH, const Tensor& targets_N, double scale) const override;

 private:
  Config config_;
  TokenIds tokens_;
  ParameterStore store_;
  Tensor embedding_;
  ResidualScale entry_;
  std::vector<Layer> layers_;
  Tensor final_norm_;
  Tensor head_weight_, head_bias_;
};

std::unique_ptr<Model> create(const Config& config, const LoadOptions& options);

}  // namespace tephra::zaya1
