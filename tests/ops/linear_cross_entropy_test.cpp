// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tephra/autograd/tape.h"
#include "tephra/core/rng.h"
#include "tephra/ops/linear_cross_entropy.h"
#include "tests/support/message_of.h"

namespace tephra::linear_cross_entropy_test {  // a name of its own: test files are compiled
                                               // together
namespace {

struct Head {
  Tensor h, weight, targets;

  Head(int64_t tokens, int64_t width, int64_t vocabulary, DType dtype)
      : h({tokens, width}, dtype),
        weight({vocabulary, width}, dtype),
        targets({tokens}, DType::i32) {
    fill_normal(h, {21, 1, 0}, 0, 1);
    fill_normal(weight, {21, 2, 0}, 0, 0.1);
    for (int64_t i = 0; i < tokens; ++i)
      targets.set(i, static_cast<double>((i * 131) % vocabulary));
  }
};

TEST(LinearCrossEntropy, IsTheSumOfTheTokenLosses) {
  Head head(9, 5, 17, DType::f32);
  head.targets.set(4, -1);
  const Tensor losses = token_losses(head.h, head.weight, {}, head.targets);
  const Tensor loss = linear_cross_entropy(head.h, head.weight, {}, head.targets, 0.5);
  double sum = 0;
  for (int64_t i = 0; i < losses.numel(); ++i) sum += losses.at(i);
  EXPECT_NEAR(loss.at(0), 0.5 * sum, 1e-6);
  EXPECT_EQ(losses.at(4), 0);
  EXPECT_GT(losses.at(3), 0);
}

// A bf16 weight is widened block by block; this one has two blocks.
TEST(LinearCrossEntropy, ComputesInFloatFromBf16) {
  Head narrow(3, 512, 2100, DType::bf16);
  Head wide(3, 512, 2100, DType::f32);
  copy_into(wide.h, narrow.h);
  copy_into(wide.weight, narrow.weight);
  for (Head* head : {&narrow, &wide}) {
    make_leaf(head->h, head->h.dtype());
    make_leaf(head->weight, DType::f32);
    Tape tape;
    tape.backward(linear_cross_entropy(head->h, head->weight, {}, head->targets, 1));
  }
  const Tensor dweight = gradient(narrow.weight), dweight_wide = gradient(wide.weight);
  for (int64_t i = 0; i < dweight.numel(); ++i) {
    ASSERT_NEAR(dweight.at(i), dweight_wide.at(i), 1e-6) << i;
  }
  const Tensor dh = gradient(narrow.h), dh_wide = gradient(wide.h);
  for (int64_t i = 0; i < dh.numel(); ++i) {
    ASSERT_NEAR(dh.at(i), dh_wide.at(i), std::abs(dh_wide.at(i)) / 256 + 1e-5) << i;
  }
}

TEST(LinearCrossEntropy, DoesNotDependOnWhatIgnoredTokensHold) {
  Head head(6, 4, 7, DType::f32);
  head.targets.set(2, -1);
  const Tensor before = linear_cross_entropy(head.h, head.weight, {}, head.targets, 1);
  for (int64_t c = 0; c < 4; ++c) head.h.set(2 * 4 + c, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(same_bits(before, linear_cross_entropy(head.h, head.weight, {}, head.targets, 1)));
}

TEST(LinearCrossEntropy, ShowsNan) {
  Head head(6, 4, 40, DType::f32);
  head.h.set(9, std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(std::isnan(linear_cross_entropy(head.h, head.weight, {}, head.targets, 1).at(0)));
}

TEST(LinearCrossEntropy, SurvivesLogitsThatExpCannotHold) {
  const Tensor h = from_values<float>({1, 1}, {1}), targets = from_values<int32_t>({1}, {0});
  const Tensor weight = from_values<float>({3, 1}, {1000, 999, -1e30f});
  const double loss = linear_cross_entropy(h, weight, {}, targets, 1).at(0);
  EXPECT_NEAR(loss, std::log1p(std::exp(-1.0)), 1e-4);
}

TEST(LinearCrossEntropy, NamesATargetOutsideTheVocabulary) {
  Head head(3, 4, 7, DType::f32);
  const auto message = [&](double target) {
    head.targets.set(1, target);
    return message_of([&] { linear_cross_entropy(head.h, head.weight, {}, head.targets, 1); });
  };
  EXPECT_EQ(message(7),
            "linear_cross_entropy: token 1 has target 7, outside the vocabulary of 7; -1 ignores a "
            "token");
  EXPECT_EQ(
      message(-100),
      "linear_cross_entropy: token 1 has target -100, outside the vocabulary of 7; -1 ignores "
      "a token");
}

TEST(LinearCrossEntropy, WantsAParameterAsItsWeight) {
  Head head(3, 4, 7, DType::f32);
  make_leaf(head.weight, DType::f32);
  const Tape tape;
  Tensor made = clone(head.weight);
  record({.name = "copy", .op_class = OpClass::linear, .inputs = {head.weight}}, {&made},
         [](const Tensors&, const Tensors&, GradSink&) {});
  EXPECT_EQ(message_of([&] { linear_cross_entropy(head.h, made, {}, head.targets, 1); }),
            "linear_cross_entropy: weight must be a parameter, got the output of another op; its "
            "gradient is complete before backward begins");
}

TEST(LinearCrossEntropy, SaysWhatDoesNotFit) {
  const Head head(3, 4, 7, DType::f32);
  const auto message = [&](const Tensor& weight, const Tensor& bias, const Tensor& targets) {
    return message_of([&] { token_losses(head.h, weight, bias, targets); });
  };
  EXPECT_EQ(message(Tensor({7, 5}, DType::f32), {}, head.targets),
            "linear_cross_entropy: weight must be [vocabulary, 4] to match h [3, 4], got [7, 5]");
  EXPECT_EQ(message(head.weight, Tensor({6}, DType::f32), head.targets),
            "linear_cross_entropy: bias must be [7] to match weight [7, 4], got [6]");
  EXPECT_EQ(message(Tensor({7, 4}, DType::bf16), {}, head.targets),
            "linear_cross_entropy: weight is bf16 and bias bf16, h is f32");
  EXPECT_EQ(message(head.weight, {}, Tensor({4}, DType::i32)),
            "linear_cross_entropy: targets must be i32 [3] to match h [3, 4], got i32 [4]");
}

TEST(LinearCrossEntropy, TakesEqualPiecesInWholeTilesOnAGpu) {
  EXPECT_EQ(gpu_logit_rows(16384, 262272, 4), 2048);
  EXPECT_EQ(gpu_logit_rows(4096, 262272, 4), 2048);
  EXPECT_EQ(gpu_logit_rows(2400, 262272, 4), 1280) << "two pieces, not 2048 and 352";
  EXPECT_EQ(gpu_logit_rows(2100, 262272, 4), 2100);
  EXPECT_EQ(gpu_logit_rows(16384, 262272, 2), 4096) << "of exponentials";
  EXPECT_EQ(gpu_logit_rows(65536, 512, 4), 65536);
  EXPECT_EQ(gpu_logit_rows(1000, int64_t{1} << 30, 4), 16);
}

}  // namespace
}  // namespace tephra::linear_cross_entropy_test
