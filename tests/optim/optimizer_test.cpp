// SPDX-License-Identifier: Apache-2.0
// The optimizer against the formulas, element by element in double.
#include "tephra/optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "tephra/base/parallel.h"
#include "tests/support/difference.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

std::vector<ParameterSpec> trained_specs() {
  return {{"embed", {11, 7}, ParameterKind::embedding, 0, 0.5},
          {"q", {6, 9}, ParameterKind::matrix, 0, 0.5},
          {"tall", {9, 6}, ParameterKind::matrix, 0, 0.5},
          {"row", {1, 5}, ParameterKind::matrix, 0, 0.5},
          {"column", {5, 1}, ParameterKind::matrix, 0, 0.5},
          {"conv", {5, 1, 3}, ParameterKind::convolution, 0, 0.5},
          {"experts", {3, 8, 5}, ParameterKind::experts, 0, 0.5},
          {"none", {0, 8, 5}, ParameterKind::experts, 0, 0.5},
          {"norm", {70}, ParameterKind::vector, 1, 0.1},
          {"biases", {4}, ParameterKind::buffer, 0.25, 0}};
}

// Gradients of step k, the same for every run.
void set_gradients(ParameterStore& store, uint32_t k, double std = 0.3) {
  for (size_t i = 0; i < store.specs().size(); ++i) {
    if (store.at(i).variable()) {
      Variable& leaf = *store.at(i).variable();
      fill_normal(leaf.grad, {11, stream_of(store.specs()[i].name), k}, 0, std);
      leaf.written = {{0, leaf.grad.cols()}};
    }
  }
}

ParameterStore new_store(DType dtype, std::vector<ParameterSpec> specs = trained_specs()) {
  ParameterStore store(std::move(specs), dtype, kCpu, true);
  store.initialise(3);
  return store;
}

// All of the maths again, plainly.
class Naive {
 public:
  Naive(const ParameterStore& store, std::vector<ParameterRule> rules, const OptimizerOptions& o)
      : specs_(store.specs()), rules_(std::move(rules)), o_(o) {
    for (size_t i = 0; i < specs_.size(); ++i) {
      std::vector<double> p;
      for (int64_t e = 0; e < specs_[i].shape.numel(); ++e) p.push_back(store.at(i).at(e));
      p_.push_back(p);
    }
    m_ = v_ = p_;
    for (auto* state : {&m_, &v_}) {
      for (auto& s : *state) std::fill(s.begin(), s.end(), 0.0);
    }
  }

  double step(const ParameterStore& store, double lr) {
    std::vector<std::vector<double>> g;
    double sum = 0;
    for (size_t i = 0; i < specs_.size(); ++i) {
      g.emplace_back();
      if (rules_[i].rule == UpdateRule::frozen) continue;
      for (size_t e = 0; e < p_[i].size(); ++e) {
        g[i].push_back(gradient(store.at(i)).at(int64_t(e)));
        sum += g[i][e] * g[i][e];
      }
    }
    const double norm = std::sqrt(sum);
    const double scale = o_.clip_norm > 0 ? std::min(1.0, o_.clip_norm / (norm + 1e-6)) : 1;
    ++t_;
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (rules_[i].rule == UpdateRule::frozen) continue;
      const double rate = lr * rules_[i].rate;
      for (double& p : p_[i]) p *= rules_[i].decays ? 1 - rate * o_.weight_decay : 1;
      for (double& x : g[i]) x *= scale;
      rules_[i].rule == UpdateRule::muon ? muon(i, g[i], rate) : adamw(i, g[i], rate);
    }
    return norm;
  }

  const std::vector<double>& operator[](size_t i) const { return p_[i]; }

 private:
  void adamw(size_t i, const std::vector<double>& g, double rate) {
    const AdamWOptions& a = o_.adamw;
    for (size_t e = 0; e < g.size(); ++e) {
      m_[i][e] = a.beta1 * m_[i][e] + (1 - a.beta1) * g[e];
      v_[i][e] = a.beta2 * v_[i][e] + (1 - a.beta2) * g[e] * g[e];
      const double mh = m_[i][e] / (1 - std::pow(a.beta1, t_));
      const double vh = v_[i][e] / (1 - std::pow(a.beta2, t_));
      p_[i][e] -= rate * mh / (std::sqrt(vh) + a.eps);
    }
  }

  void muon(size_t i, const std::vector<double>& g, double rate) {
    const Matrices shape = matrices_of(specs_[i]);
    const auto size = static_cast<size_t>(shape.rows * shape.cols);
    for (size_t at = 0; at < g.size(); at += size) {
      const Tensor u({1, shape.rows, shape.cols}, DType::f64);
      double sum = 0;
      for (size_t e = 0; e < size; ++e) {
        double& m = m_[i][at + e];
        m = o_.muon.momentum * m + g[at + e];
        const double x = o_.muon.nesterov ? g[at + e] + o_.muon.momentum * m : m;
        u.set(int64_t(e), x);
        sum += x * x;
      }
      for (size_t e = 0; e < size; ++e)
        u.set(int64_t(e), u.at(int64_t(e)) / (std::sqrt(sum) + 1e-7));
      const Tensor step = newton_schulz(u, o_.muon.newton_schulz);  // has a twin in its own test
      const double by = rate * o_.muon.scale * std::sqrt(double(std::max(shape.rows, shape.cols)));
      for (size_t e = 0; e < size; ++e) p_[i][at + e] -= by * step.at(int64_t(e));
    }
  }

  std::vector<ParameterSpec> specs_;
  std::vector<ParameterRule> rules_;
  OptimizerOptions o_;
  std::vector<std::vector<double>> p_, m_, v_;
  double t_ = 0;
};

// Largest difference between a store and the naive run after some steps.
double distance_after(DType dtype, const RuleOptions& choice, const OptimizerOptions& options,
                      int steps = 5) {
  ParameterStore store = new_store(dtype);
  const auto rules = assign_rules(store.specs(), choice);
  Naive naive(store, rules, options);
  Optimizer optimizer(store, rules, options);
  for (int k = 0; k < steps; ++k) {
    set_gradients(store, uint32_t(k));
    const StepReport report = optimizer.step(0.01 * (k + 1));
    const double norm = naive.step(store, 0.01 * (k + 1));
    EXPECT_NEAR(report.gradients.norm / norm, 1, 1e-12);
    EXPECT_TRUE(report.applied);
    EXPECT_EQ(report.updates, k + 1);
  }
  double worst = 0;
  std::map<std::string, Tensor> remainders;
  for (const StateTensor& s : optimizer.state()) {
    if (s.name.starts_with("master_remainder.")) remainders[s.parameter] = s.tensor;
  }
  for (size_t i = 0; i < rules.size(); ++i) {
    for (int64_t e = 0; e < store.at(i).numel(); ++e) {
      double value = store.at(i).at(e);
      if (remainders.contains(store.specs()[i].name)) {
        const float high = float(value);
        value = std::bit_cast<float>(std::bit_cast<uint32_t>(high) +
                                     uint32_t(int32_t(remainders[store.specs()[i].name].at(e))));
      }
      worst = std::max(worst, difference(value, naive[i][size_t(e)]));
    }
  }
  return worst;
}

TEST(Optimizer, FollowsTheFormulasInDouble) {
  EXPECT_LT(distance_after(DType::f64, {}, {}), 1e-12);
  EXPECT_LT(distance_after(DType::f64, {.matrices = UpdateRule::adamw}, {}), 1e-12);
}

// Weights stay below 4, an update below 0.1: some ten roundings of 2^-24 relative each, and Newton-
// Schulz stretches those of Muon up to 485 times before the rate shrinks them.
TEST(Optimizer, FollowsTheFormulasInFloat) {
  EXPECT_LT(distance_after(DType::f32, {}, {}), 5e-6);
  EXPECT_LT(distance_after(DType::f32, {.matrices = UpdateRule::adamw}, {}), 5e-6);
}

// bf16 weights with their remainders are as good as f32: nothing is lost between steps.
TEST(Optimizer, KeepsAnF32MasterOfBf16Weights) {
  EXPECT_LT(distance_after(DType::bf16, {}, {}), 5e-6);
  EXPECT_LT(distance_after(DType::bf16, {.matrices = UpdateRule::adamw}, {}), 5e-6);
}

TEST(Optimizer, TakesOtherSettings) {
  OptimizerOptions o;
  o.adamw = {.beta1 = 0, .beta2 = 0.5, .eps = 1e-3};
  o.muon = {.momentum = 0.5, .nesterov = false, .scale = 0.4, .newton_schulz = {.steps = 3}};
  o.weight_decay = 0.7;
  o.clip_norm = 0;
  const RuleOptions rules{.overrides = {{.names = "q", .rate = 0.3},
                                        {.names = "norm", .decays = true},
                                        {.names = "embed", .rule = UpdateRule::frozen}}};
  EXPECT_LT(distance_after(DType::f64, rules, o), 1e-12);
}

TEST(Optimizer, NeverTouchesBuffersFrozenParametersOrPadding) {
  ParameterStore store = new_store(DType::f32);
  const Tensor frozen = clone(store["embed"]), buffer = clone(store["biases"]);
  Optimizer optimizer(
      store,
      assign_rules(store.specs(), {.overrides = {{.names = "embed", .rule = UpdateRule::frozen}}}),
      {});
  set_gradients(store, 0);
  optimizer.step(0.1);
  EXPECT_TRUE(same_bits(store["embed"], frozen));
  EXPECT_TRUE(same_bits(store["biases"], buffer));
  const Tensor& flat = store.flat_values();
  std::vector<bool> used(static_cast<size_t>(flat.numel()), false);
  for (size_t i = 0; i < store.specs().size(); ++i) {
    for (int64_t e = 0; store.offset(i) >= 0 && e < store.at(i).numel(); ++e) {
      used[static_cast<size_t>(store.offset(i) + e)] = true;
    }
  }
  for (int64_t i = 0; i < flat.numel(); ++i) {
    if (!used[static_cast<size_t>(i)]) {
      ASSERT_EQ(flat.at(i), 0) << i;
    }
  }
}

// Shapes large enough for several pieces and blocks, in both ways of sharing the work out.
TEST(Optimizer, GivesTheSameBitsOnAnyNumberOfThreads) {
  const int before = num_threads();
  const auto run = [](int threads, DType dtype) {
    set_num_threads(threads);
    ParameterStore store =
        new_store(dtype, {{"embed", {300, 120}, ParameterKind::embedding, 0, 1},
                          {"wide", {150, 260}, ParameterKind::matrix, 0, 1},
                          {"experts", {40, 70, 60}, ParameterKind::experts, 0, 1},
                          {"norm", {77}, ParameterKind::vector, 1, 0.1}});
    Optimizer optimizer(store, assign_rules(store.specs()), {});
    for (uint32_t k = 0; k < 3; ++k) {
      set_gradients(store, k);
      optimizer.step(0.01);
    }
    Tensors all{clone(store.flat_values())};
    for (const StateTensor& s : optimizer.state()) all.push_back(clone(s.tensor));
    return all;
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors want = run(1, dtype);
    for (const int threads : {2, 3, 8, 16}) {
      const Tensors got = run(threads, dtype);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << threads;
    }
  }
  set_num_threads(before);
}

TEST(Optimizer, SkipsAStepWhoseGradientsAreNotFinite) {
  for (const double bad : {std::nan(""), double(INFINITY), -double(INFINITY)}) {
    ParameterStore store = new_store(DType::f32);
    Optimizer optimizer(store, assign_rules(store.specs()), {});
    set_gradients(store, 0);
    optimizer.step(0.1);
    const Tensor values = clone(store.flat_values());
    Tensors state;
    for (const StateTensor& s : optimizer.state()) state.push_back(clone(s.tensor));
    set_gradients(store, 1);
    gradient(store["norm"]).set(69, bad);
    const StepReport report = optimizer.step(0.1);
    EXPECT_FALSE(report.applied);
    EXPECT_FALSE(report.gradients.finite);
    EXPECT_EQ(report.updates, 1) << "nor does it count for the bias correction";
    EXPECT_TRUE(same_bits(store.flat_values(), values));
    for (size_t i = 0; i < state.size(); ++i) {
      EXPECT_TRUE(same_bits(optimizer.state()[i].tensor, state[i]));
    }
  }
}

TEST(Optimizer, ContinuesFromSavedState) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    ParameterStore one = new_store(dtype), other = new_store(dtype);
    Optimizer first(one, assign_rules(one.specs()), {});
    set_gradients(one, 0);
    first.step(0.05);
    Optimizer second(other, assign_rules(other.specs()), {});
    copy_into(other.flat_values(), one.flat_values());
    const auto from = first.state(), to = second.state();
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(from[i].name, to[i].name);
      copy_into(to[i].tensor, from[i].tensor);
    }
    second.set_updates(first.updates());
    for (ParameterStore* store : {&one, &other}) set_gradients(*store, 1);
    first.step(0.05);
    second.step(0.05);
    EXPECT_TRUE(same_bits(one.flat_values(), other.flat_values()));
  }
}

TEST(Optimizer, NamesItsState) {
  ParameterStore store = new_store(DType::bf16, {{"q", {6, 9}, ParameterKind::matrix, 0, 1},
                                                 {"norm", {70}, ParameterKind::vector, 1, 0},
                                                 {"biases", {4}, ParameterKind::buffer, 0, 0}});
  const Optimizer optimizer(store, assign_rules(store.specs()), {});
  std::string names;
  for (const StateTensor& s : optimizer.state()) names += s.name + to_text(s.tensor.shape()) + " ";
  EXPECT_EQ(names,
            "muon.momentum.q[6, 9] master_remainder.q[6, 9] adamw.m.norm[70] adamw.v.norm[70] "
            "master_remainder.norm[70] ");
  EXPECT_EQ(optimizer.state_bytes(), (64 + 128) * 4 + 128 * 4 + (64 + 128) * 2);
}

TEST(Optimizer, HoldsItsStateAndWorkspaceInNamedMemory) {
  const auto optimizer_bytes = [] {
    return memory_use()[static_cast<size_t>(Purpose::optimizer)].bytes;
  };
  ParameterStore store = new_store(DType::f32);
  const int64_t before = optimizer_bytes();
  Optimizer optimizer(store, assign_rules(store.specs()), {});
  EXPECT_GE(optimizer_bytes() - before, optimizer.state_bytes());
}

TEST(Optimizer, SaysWhatIsWrong) {
  ParameterStore store = new_store(DType::f32);
  const auto message = [&](OptimizerOptions o) {
    return message_of([&] { Optimizer(store, assign_rules(store.specs()), o); });
  };
  EXPECT_EQ(message({.adamw = {.beta1 = 1}}),
            "optimizer: adamw beta1: expected a number in [0, 1), got 1");
  EXPECT_EQ(message({.adamw = {.eps = 0}}), "optimizer: adamw eps: expected more than 0, got 0");
  EXPECT_EQ(message({.weight_decay = -1}), "optimizer: weight decay: expected 0 or more, got -1");
  EXPECT_EQ(message({.muon = {.newton_schulz = {.steps = 0}}}),
            "optimizer: Newton-Schulz steps: expected 1 to 100, got 0");
  ParameterStore plain(trained_specs(), DType::f32, kCpu, false);
  EXPECT_EQ(message_of([&] { Optimizer(plain, assign_rules(plain.specs()), {}); }),
            "optimizer: expected parameters with gradients, got some without; load the model with "
            "gradients");
  Optimizer fine(store, assign_rules(store.specs()), {});
  EXPECT_EQ(message_of([&] { fine.step(std::nan("")); }),
            "optimizer: expected a learning rate of 0 or more, got nan");
}

TEST(Clip, ScalesWhatIsLongerThanAllowed) {
  EXPECT_EQ(clip(9, 0).scale, 1);
  EXPECT_EQ(clip(9, 4).scale, 1);
  EXPECT_EQ(clip(9, 3).scale, 3 / (3 + 1e-6)) << "as the reference does";
  EXPECT_EQ(clip(9, 1.5).scale, 1.5 / (3 + 1e-6));
  EXPECT_EQ(clip(9, 1.5).norm, 3);
  EXPECT_EQ(clip(0, 1).scale, 1);
  EXPECT_FALSE(clip(INFINITY, 1).finite);
  EXPECT_FALSE(clip(std::nan(""), 1).finite);
}

// Squares of large floats overflow in float; the sum does not.
TEST(Clip, SumsSquaresInDouble) {
  ParameterStore store = new_store(DType::f32);
  Optimizer optimizer(store, assign_rules(store.specs()), {});
  set_gradients(store, 0, 1e30);
  const StepReport report = optimizer.step(0.1);
  EXPECT_TRUE(report.applied);
  EXPECT_GT(report.gradients.norm, 1e30);
}

}  // namespace
}  // namespace tephra
