// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tephra/autograd/tape.h"
#include "tephra/ops/route.h"
#include "tests/support/message_of.h"

namespace tephra::route_test {  // a name of its own: test files are compiled together
namespace {

TEST(Route, TakesTheLowestClassOnATie) {
  const Tensor logits = from_values<float>({2, 3}, {1, 1, 1, 0, 2, 2});
  const Routing r = route(logits, zeros({3}, DType::f32));
  EXPECT_EQ(r.expert_N.at(0), 0);
  EXPECT_EQ(r.expert_N.at(1), 1);
  EXPECT_FLOAT_EQ(static_cast<float>(r.weight_N.at(0)), 1.0f / 3);
}

TEST(Route, ChoosesByBiasButWeighsByProbability) {
  const Tensor logits = from_values<float>({1, 2}, {1, 0});
  const Routing r = route(logits, from_values<float>({2}, {-1, 0}));
  EXPECT_EQ(r.expert_N.at(0), 1);
  EXPECT_NEAR(r.weight_N.at(0), 1 / (1 + std::exp(1.0)), 1e-6);
}

TEST(Route, ShowsNanInTheWeightAndNowhereElse) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = from_values<float>({3, 3}, {0, 1, 2, 0, nan, 2, 2, 0, 1});
  const Routing r = route(logits, zeros({3}, DType::f32));
  EXPECT_EQ(r.expert_N.at(0), 2);
  EXPECT_EQ(r.expert_N.at(1), 0);
  EXPECT_EQ(r.expert_N.at(2), 0);
  EXPECT_TRUE(std::isnan(r.weight_N.at(1)));
  EXPECT_FALSE(std::isnan(r.weight_N.at(0)) || std::isnan(r.weight_N.at(2)));
}

TEST(Route, GivesTheBiasesNoGradient) {
  Tensor logits = from_values<float>({1, 2}, {1, 0}), biases = zeros({2}, DType::f32);
  make_leaf(logits, DType::f32);
  make_leaf(biases, DType::f32);
  Tape tape;
  const Routing r = route(logits, biases);
  tape.backward({r.weight_N}, {full({1}, DType::f32, 1)});
  EXPECT_NE(gradient(logits).at(0), 0);
  EXPECT_EQ(gradient(biases).at(0), 0);
}

TEST(Route, SaysWhatDoesNotFit) {
  const Tensor logits({4, 3}, DType::bf16);
  EXPECT_EQ(message_of([&] { route(logits, Tensor({4}, DType::f32)); }),
            "route: biases must be [3] to match the classes of logits [4, 3], got [4]");
  EXPECT_EQ(message_of([&] { route(logits, Tensor({3}, DType::bf16)); }),
            "route: biases must be f32 for bf16 logits, got bf16");
  EXPECT_EQ(message_of([&] {
              route(Tensor({4, 0}, DType::f32), Tensor({0}, DType::f32));
            }),
            "route: logits must be [tokens, classes], got [4, 0]");
}

}  // namespace
}  // namespace tephra::route_test
