// SPDX-License-Identifier: Apache-2.0
// Balances the load of experts by biases on the router's choice. A bias has no gradient of the
// loss; in its place stands load - 1/E, where load is the expert's share of the tokens that the
// global batch sent to experts. An AdamW of its own turns that into a step: an expert with too many
// tokens becomes less likely. The skip class (the last) has no load and a bias that stays as it is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tephra/optim/optimizer.h"

namespace tephra {

struct BalancedLayer {
  std::string name;  // of the biases
  Tensor biases;     // [experts + 1] in f32 or f64, skip last
  int64_t experts;
};

struct BalanceOptions {
  double lr = 1e-3;
  AdamWOptions adamw = {};
};

struct ExpertLoad {
  std::string name;    // of the biases
  int64_t routed = 0;  // tokens that went to experts
  int64_t skipped = 0;
  double entropy = 0;  // of the load over ln E: 1 when it is even, 0 when one expert has it all
  double largest = 0;  // largest load times E: 1 when it is even
};

// counts: tokens of each expert, then of skip.
ExpertLoad expert_load(const std::string& name, std::span<const int64_t> counts);

// Adds the choices expert_N (i32, in [0, experts]) to counts [experts + 1] (i64, on their device):
// nobody waits for a GPU before the counts are read. Tokens with a 0 in real_N (i32) are padding
// and do not count; undefined: there is none.
void count_experts(const Tensor& expert_N, const Tensor& real_N, const Tensor& counts);

namespace kernel {

struct CountExperts {
  const Tensor& expert_N;
  const Tensor& real_N;
  const Tensor& counts;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel

class BalanceController {
 public:
  BalanceController(std::vector<BalancedLayer> layers, const BalanceOptions& options);

  // counts[layer]: over the global batch. A layer that sent no token to an expert is left alone.
  std::vector<ExpertLoad> update(const std::vector<std::vector<int64_t>>& counts);

  // "balance.m.NAME" and "balance.v.NAME", as Optimizer::state.
  std::vector<StateTensor> state() const;
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  void update_layer(size_t l, std::span<const int64_t> counts);

  std::vector<BalancedLayer> layers_;
  BalanceOptions options_;
  Tensors first_, second_;  // [experts] of each layer
  int64_t updates_ = 0;
};

}  // namespace tephra
