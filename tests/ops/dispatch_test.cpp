// SPDX-License-Identifier: Apache-2.0
// The plan itself, what wrong use says, and that a token's expert output does not depend on who
// else is routed there.
#include "tephra/ops/dispatch.h"

#include <gtest/gtest.h>

#include "tephra/core/rng.h"
#include "tephra/ops/expert_cases.h"
#include "tephra/ops/grouped_linear.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

TEST(PlanDispatch, SortsTokensByExpertInTokenOrderAndSkippedOnesLast) {
  const DispatchPlan plan = plan_dispatch(experts_of({2, 0, 7, 2, 3, 0}), 3);
  const Tensor order = experts_of({1, 5, 0, 3, 2, 4});
  const Tensor offsets = experts_of({0, 2, 2, 4});
  EXPECT_TRUE(same_bits(plan.order_N, order));
  EXPECT_TRUE(same_bits(plan.offsets, offsets));
  EXPECT_TRUE(same_bits(plan.place_N, experts_of({2, 0, 4, 3, 5, 1})));
}

TEST(PlanDispatch, MatchesTheNaivePlan) {
  for (const ExpertCase& test : expert_cases()) {
    const DispatchPlan plan = plan_dispatch(test.expert_N, test.num_experts);
    const NaivePlan want = naive_plan(test.expert_N, test.num_experts);
    ASSERT_EQ(plan.offsets.shape(), Shape{test.num_experts + 1}) << test.name;
    EXPECT_EQ(plan.offsets.at(test.num_experts), double(want.routed)) << test.name;
    for (int64_t i = 0; i < plan.order_N.numel(); ++i) {
      EXPECT_EQ(plan.order_N.at(i), double(want.token[size_t(i)])) << test.name << " at " << i;
    }
  }
}

TEST(PlanDispatch, NamesWhatItCannotUse) {
  EXPECT_EQ(message_of([] {
              plan_dispatch(experts_of({0, -1}), 4);
            }),
            "plan_dispatch: token 1 has expert -1; skipped tokens have 4 or more");
  EXPECT_EQ(message_of([] {
              plan_dispatch(zeros({2, 2}, DType::i32), 4);
            }),
            "plan_dispatch: experts must be [tokens] of i32, got [2, 2] of i32");
  EXPECT_EQ(message_of([] { plan_dispatch(experts_of({0}), 0); }),
            "plan_dispatch: expected at least one expert, got 0");
}

TEST(Dispatch, NamesBothShapesWhenTheyDoNotFit) {
  const DispatchPlan plan = plan_dispatch(experts_of({0, 1, 2}), 2);
  const Tensor x({3, 4}, DType::f32), weight({3}, DType::f32);
  EXPECT_EQ(message_of([&] {
              dispatch_rows(Tensor({2, 4}, DType::f32), plan);
            }),
            "dispatch_rows: expected [3, width] to match the plan, got [2, 4]");
  EXPECT_EQ(message_of([&] {
              combine_rows(Tensor({2, 4}, DType::f32), weight, plan);
            }),
            "combine_rows: expected [3, width] to match the plan, got [2, 4]");
  EXPECT_EQ(message_of([&] { combine_rows(x, Tensor({3}, DType::bf16), plan); }),
            "combine_rows: weight must be [3] of f32, got [3] of bf16");
  EXPECT_EQ(message_of([&] {
              combine_rows(x, weight, plan, Tensor({3, 5}, DType::f32));
            }),
            "combine_rows: skip_input must be like y ([3, 4] of f32), got [3, 5] of f32");
  EXPECT_EQ(message_of([&] {
              grouped_linear(Tensor({4, 4}, DType::f32), x, plan);
            }),
            "grouped_linear: x must be [3, width] to match the plan, got [4, 4]");
  EXPECT_EQ(message_of([&] {
              grouped_linear(x, Tensor({3, 5, 4}, DType::f32), plan);
            }),
            "grouped_linear: weight must be [2, out, 4] to match the plan and x [3, 4], got "
            "[3, 5, 4]");
  EXPECT_EQ(message_of([&] {
              grouped_linear(x, Tensor({2, 5, 4}, DType::f64), plan);
            }),
            "grouped_linear: weight is f64, x is f32");
}

// The same tokens for expert 1, alone with it and among many: same bits, in both classes of rows.
TEST(GroupedLinear, ATokenDoesNotDependOnItsNeighbours) {
  constexpr int64_t kWidth = 600;
  Tensor x({60, kWidth}, DType::f32), weight({2, 40, kWidth}, DType::f32);
  fill_normal(x, {1, 1, 0}, 0, 1);
  fill_normal(weight, {1, 2, 0}, 0, 1);
  const auto last_row = [&](int64_t tokens, int64_t of_expert_1) {
    std::vector<int32_t> expert(static_cast<size_t>(tokens), 0);
    std::fill(expert.end() - of_expert_1, expert.end(), 1);
    const Tensor y =
        grouped_linear(x.slice_rows(60 - tokens, 60), weight, plan_dispatch(experts_of(expert), 2));
    return y.slice_rows(tokens - 1, tokens);
  };
  EXPECT_TRUE(same_bits(last_row(60, 1), last_row(60, 30)));
  EXPECT_TRUE(same_bits(last_row(60, 1), last_row(17, 16)));
  EXPECT_TRUE(same_bits(last_row(1, 1), last_row(15, 7)));
}

}  // namespace
}  // namespace tephra
