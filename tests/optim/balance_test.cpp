// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/balance.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/message_of.h"

namespace tephra {
namespace {

Tensor biases() { return from_values<float>({4}, {0, 0.5f, -0.25f, -1}); }

BalanceController controller(const Tensor& b, double lr = 0.1) {
  return BalanceController({{"gate.biases", b, 3}}, {.lr = lr});
}

TEST(ExpertLoad, IsEvenOrNot) {
  const ExpertLoad even = expert_load("l", std::vector<int64_t>{5, 5, 5, 5, 7});
  EXPECT_NEAR(even.entropy, 1, 1e-15);
  EXPECT_EQ(even.largest, 1);
  EXPECT_EQ(even.routed, 20);
  EXPECT_EQ(even.skipped, 7) << "and does not count as load";
  const ExpertLoad one = expert_load("l", std::vector<int64_t>{0, 9, 0, 0, 1});
  EXPECT_EQ(one.entropy, 0);
  EXPECT_EQ(one.largest, 4);
  const ExpertLoad half = expert_load("l", std::vector<int64_t>{4, 4, 0, 0, 0});
  EXPECT_NEAR(half.entropy, 0.5, 1e-15);
  EXPECT_EQ(expert_load("l", std::vector<int64_t>{3, 0}).entropy, 1) << "one expert is even";
  EXPECT_EQ(expert_load("l", std::vector<int64_t>{0, 0, 6}).entropy, 0);
}

TEST(ExpertLoad, IsCountedFromTheChoices) {
  const Tensor counts = from_values<int64_t>({3}, {1, 0, 0});
  const Tensor chosen = from_values<int32_t>({6}, {0, 2, 1, 1, 0, 1});
  count_experts(chosen, {}, counts);
  EXPECT_TRUE(same_bits(counts, from_values<int64_t>({3}, {3, 3, 1})));
  count_experts(chosen, from_values<int32_t>({6}, {1, 0, 1, 1, 1, 0}), counts);
  EXPECT_TRUE(same_bits(counts, from_values<int64_t>({3}, {5, 5, 1}))) << "padding does not count";
}

// The naive AdamW on load - 1/E, step by step.
TEST(Balance, StepsByAnAdamWOfItsOwn) {
  const Tensor b = biases();
  BalanceController balance = controller(b);
  std::vector<double> want{0, 0.5, -0.25}, m(3), v(3);
  const std::vector<std::vector<int64_t>> counts{{6, 3, 1, 9}, {0, 10, 0, 0}, {4, 4, 4, 1}};
  for (size_t t = 0; t < counts.size(); ++t) {
    balance.update({counts[t]});
    double routed = 0;
    for (size_t e = 0; e < 3; ++e) routed += double(counts[t][e]);
    for (size_t e = 0; e < 3; ++e) {
      const double g = double(counts[t][e]) / routed - 1.0 / 3;
      m[e] = 0.9 * m[e] + 0.1 * g;
      v[e] = 0.95 * v[e] + 0.05 * g * g;
      const double mh = m[e] / (1 - std::pow(0.9, double(t + 1)));
      const double vh = v[e] / (1 - std::pow(0.95, double(t + 1)));
      want[e] -= 0.1 * mh / (std::sqrt(vh) + 1e-8);
      EXPECT_NEAR(b.at(int64_t(e)), want[e], 1e-6) << t << ", " << e;
    }
  }
  EXPECT_EQ(b.at(3), -1) << "the skip class is not steered";
}

TEST(Balance, MakesACrowdedExpertLessLikely) {
  const Tensor b = biases();
  const auto loads = controller(b).update({{10, 1, 1, 0}});
  EXPECT_NEAR(b.at(0), -0.1, 1e-6);
  EXPECT_NEAR(b.at(1), 0.6, 1e-6);
  EXPECT_EQ(loads[0].name, "gate.biases");
  EXPECT_LT(loads[0].entropy, 0.7);
}

TEST(Balance, LeavesALayerThatSkippedEverything) {
  const Tensor b = biases();
  controller(b).update({{0, 0, 0, 5}});
  EXPECT_TRUE(same_bits(b, biases()));
}

TEST(Balance, ContinuesFromSavedState) {
  const Tensor b = biases();
  BalanceController one = controller(b);
  one.update({{6, 3, 1, 0}});
  const Tensor resumed_biases = clone(b);
  BalanceController other = controller(resumed_biases);
  other.set_updates(one.updates());
  const auto from = one.state(), to = other.state();
  ASSERT_EQ(to.size(), 2u);
  EXPECT_EQ(to[0].name, "balance.m.gate.biases");
  EXPECT_EQ(to[1].name, "balance.v.gate.biases");
  for (size_t i = 0; i < to.size(); ++i) copy_into(to[i].tensor, from[i].tensor);
  one.update({{1, 2, 9, 0}});
  other.update({{1, 2, 9, 0}});
  EXPECT_TRUE(same_bits(b, resumed_biases));
}

TEST(Balance, SaysWhatIsWrong) {
  EXPECT_EQ(message_of([] {
              BalanceController({{"b", zeros({4}, DType::f32), 4}}, {});
            }),
            "router balancing: b: expected a bias for each of 4 experts and one for skip, got [4]");
}

}  // namespace
}  // namespace tephra
