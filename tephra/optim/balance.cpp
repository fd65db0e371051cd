// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tephra/device/launch.h"

namespace tephra {

ExpertLoad expert_load(const std::string& name, std::span<const int64_t> counts) {
  TEPHRA_ASSERT(counts.size() >= 2, "experts, then skip");
  const auto experts = counts.first(counts.size() - 1);
  ExpertLoad load{.name = name, .skipped = counts.back()};
  load.routed = std::accumulate(experts.begin(), experts.end(), int64_t{0});
  if (load.routed == 0) return load;
  for (const int64_t count : experts) {
    const double p = double(count) / double(load.routed);
    if (count > 0) load.entropy -= p * std::log(p);
    load.largest = std::max(load.largest, p * double(experts.size()));
  }
  // One expert alone is even by definition.
  load.entropy = experts.size() > 1 ? load.entropy / std::log(double(experts.size())) : 1;
  return load;
}

void count_experts(const Tensor& expert_N, const Tensor& real_N, const Tensor& counts) {
  TEPHRA_ASSERT(!real_N || real_N.numel() == expert_N.numel(), "a mark for each token");
  launch(counts.device(), "count experts", kernel::CountExperts{expert_N, real_N, counts});
}

void kernel::CountExperts::on_cpu() const {
  const int32_t* expert = expert_N.data<int32_t>();
  const int32_t* real = real_N ? real_N.data<int32_t>() : nullptr;
  int64_t* count = counts.data<int64_t>();
  for (int64_t i = 0; i < expert_N.numel(); ++i) {
    TEPHRA_ASSERT(expert[i] >= 0 && expert[i] < counts.numel(), "a class of the router");
    if (!real || real[i] != 0) ++count[expert[i]];
  }
}

BalanceController::BalanceController(std::vector<BalancedLayer> layers,
                                     const BalanceOptions& options)
    : layers_(std::move(layers)), options_(options) {
  require(std::isfinite(options.lr) && options.lr >= 0,
          "router balancing: expected a learning rate of 0 or more, got {}", options.lr);
  for (const BalancedLayer& layer : layers_) {
    require(layer.experts >= 1 && layer.biases.numel() == layer.experts + 1,
            "router balancing: {}: expected a bias for each of {} experts and one for skip, got {}",
            layer.name, layer.experts, layer.biases.shape());
    const DType dtype = layer.biases.dtype();
    first_.push_back(zeros({layer.experts}, dtype, kCpu, Purpose::optimizer));
    second_.push_back(zeros({layer.experts}, dtype, kCpu, Purpose::optimizer));
  }
}

void BalanceController::update_layer(size_t l, std::span<const int64_t> counts) {
  const BalancedLayer& layer = layers_[l];
  const AdamWOptions& o = options_.adamw;
  const auto t = static_cast<double>(updates_);
  const Tensor biases = to_device(layer.biases, kCpu);
  const double routed = double(std::accumulate(counts.begin(), counts.end() - 1, int64_t{0}));
  for (int64_t e = 0; e < layer.experts; ++e) {
    const double g = double(counts[static_cast<size_t>(e)]) / routed - 1.0 / double(layer.experts);
    const double m = o.beta1 * first_[l].at(e) + (1 - o.beta1) * g;
    const double v = o.beta2 * second_[l].at(e) + (1 - o.beta2) * g * g;
    first_[l].set(e, m);
    second_[l].set(e, v);
    const double root = std::sqrt(v / (1 - std::pow(o.beta2, t))) + o.eps;
    biases.set(e, biases.at(e) - options_.lr * m / (1 - std::pow(o.beta1, t)) / root);
  }
  if (biases.device() != layer.biases.device()) copy_into(layer.biases, biases);
}

std::vector<ExpertLoad> BalanceController::update(const std::vector<std::vector<int64_t>>& counts) {
  TEPHRA_ASSERT(counts.size() == layers_.size(), "counts of every layer");
  ++updates_;
  std::vector<ExpertLoad> loads;
  for (size_t l = 0; l < layers_.size(); ++l) {
    TEPHRA_ASSERT(static_cast<int64_t>(counts[l].size()) == layers_[l].experts + 1,
                  "experts, then skip");
    loads.push_back(expert_load(layers_[l].name, counts[l]));
    if (loads.back().routed > 0) update_layer(l, counts[l]);
  }
  return loads;
}

std::vector<StateTensor> BalanceController::state() const {
  std::vector<StateTensor> list;
  for (size_t l = 0; l < layers_.size(); ++l) {
    list.push_back({"balance.m." + layers_[l].name, layers_[l].name, first_[l]});
    list.push_back({"balance.v." + layers_[l].name, layers_[l].name, second_[l]});
  }
  return list;
}

}  // namespace tephra
