// SPDX-License-Identifier: Apache-2.0
// rope, qk_mean and qk_norm beyond the op suite: the clamped norm, float32 angles, wrong use.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tephra/autograd/tape.h"
#include "tephra/core/rng.h"
#include "tephra/ops/qk_mean.h"
#include "tephra/ops/qk_norm.h"
#include "tephra/ops/rope.h"
#include "tephra/ops/rotary_table.h"
#include "tests/support/message_of.h"

namespace tephra::qk_test {  // a name of its own: test files are compiled together
namespace {

// Rotating (1, 0) shows the cosine and sine of each angle.
TEST(Rope, RoundsFrequenciesAndAnglesToFloat32) {
  constexpr int64_t kDim = 64;
  constexpr float kTheta = 5e6F;
  Tensor x = zeros({3, kDim}, DType::f32);
  for (int64_t i = 0; i < 3 * kDim; ++i) x.set(i, i % kDim < kDim / 2 ? 1 : 0);
  const std::vector<int32_t> positions{1, 4095, 131071};
  const Tensor y = rope(x, from_values<int32_t>({3}, positions), {kDim, kDim, kTheta});
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t i = 0; i < kDim / 2; ++i) {
      const float power = static_cast<float>(std::pow(double(kTheta), double(2 * i) / kDim));
      const float angle = static_cast<float>(positions[r]) * (1 / power);
      ASSERT_NEAR(y.at(r * kDim + i), std::cos(double(angle)), 1e-7) << r << " " << i;
      ASSERT_NEAR(y.at(r * kDim + kDim / 2 + i), std::sin(double(angle)), 1e-7) << r << " " << i;
    }
  }
}

TEST(Rope, TurnsBackWhatItTurned) {
  Tensor x({40, 24}, DType::f64);
  fill_normal(x, {1, 1, 0}, 0, 1);
  make_leaf(x, DType::f64);
  Tensor position({40}, DType::i32);
  for (int64_t r = 0; r < 40; ++r) position.set(r, static_cast<double>(r * r * 97));
  Tape tape;
  const Tensor y = rope(x, position, {12, 8, 10000});
  tape.backward({y}, {y.detach()});
  for (int64_t i = 0; i < x.numel(); ++i) ASSERT_NEAR(gradient(x).at(i), x.at(i), 1e-14) << i;
}

TEST(RotaryTable, GivesTheSameRowsHoweverItGrew) {
  std::vector<float> scratch(6), other(6);
  const auto small = cpu::RotaryTable<float>::covering(10, 6, 777);
  const auto large = cpu::RotaryTable<float>::covering(5000, 6, 777);
  for (const int64_t p : {0, 9, 255, 4999, 400000}) {
    const float *a = small->row(p, scratch.data()), *b = large->row(p, other.data());
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(a[i], b[i]) << p;
  }
  EXPECT_EQ(cpu::RotaryTable<float>::covering(4000, 6, 777), large);
  EXPECT_NE(cpu::RotaryTable<float>::covering(4000, 6, 778), large);
}

TEST(QkNorm, TreatsALengthBelowEpsilonAsAConstant) {
  constexpr double kEps = std::numeric_limits<double>::epsilon();
  Tensor x = zeros({1, 8}, DType::f64), temp = full({1}, DType::f64, 3);
  x.set(5, kEps / 4);
  make_leaf(x, DType::f64);
  make_leaf(temp, DType::f64);
  Tape tape;
  const Tensor y = qk_norm(x, temp, 1, 1);
  EXPECT_EQ(y.at(0), 0);
  EXPECT_DOUBLE_EQ(y.at(5), 3 * 2 / 4.0);
  tape.backward({y}, {full({1, 8}, DType::f64, 1)});
  EXPECT_DOUBLE_EQ(gradient(x).at(0), 2 / kEps);
  EXPECT_DOUBLE_EQ(gradient(x).at(5), 3 * 2 / kEps);
  EXPECT_DOUBLE_EQ(gradient(temp).at(0), 2 / 4.0);
}

TEST(Qk, SaysWhatDoesNotFit) {
  const Tensor x({4, 24}, DType::f32), temp({2}, DType::f32), position({4}, DType::i32);
  fill(position, 0);
  EXPECT_EQ(message_of([&] {
              rope(x, position, {7, 2, 1e4});
            }),
            "rope: x must be [tokens, heads * 7], got [4, 24]");
  EXPECT_EQ(message_of([&] {
              rope(x, Tensor({3}, DType::i32), {8, 2, 1e4});
            }),
            "rope: position_N must be i32 [4], one for each row of x [4, 24], got i32 [3]");
  EXPECT_EQ(message_of([&] {
              rope(x, position, {8, 3, 1e4});
            }),
            "rope: rotary_dim must be even and between 0 and head_dim = 8, got 3");
  EXPECT_EQ(message_of([&] {
              rope(x, position, {8, 10, 1e4});
            }),
            "rope: rotary_dim must be even and between 0 and head_dim = 8, got 10");
  EXPECT_EQ(message_of([&] {
              rope(x, position, {8, 2, -1});
            }),
            "rope: theta must be positive, got -1");
  EXPECT_EQ(message_of([&] {
              rope(x, position, {8, 4, 1e4, 5});
            }),
            "rope: 4 dimensions from 5 on do not lie within a head of 8");
  EXPECT_EQ(message_of([&] {
              rope(x, from_values<int32_t>({4}, {0, 1, -2, 3}), {8, 2, 1e4});
            }),
            "rope: a position cannot be negative, got -2");
  EXPECT_EQ(message_of([&] { qk_mean(x, x, 3, 2); }),
            "qk_mean: query heads must be a multiple of key heads, got 3 and 2");
  EXPECT_EQ(message_of([&] { qk_mean(x, x, 4, 1); }),
            "qk_mean: z must be [tokens, (4 + 1) * head_dim], got [4, 24]");
  EXPECT_EQ(message_of([&] {
              qk_mean(x, Tensor({4, 24}, DType::bf16), 4, 2);
            }),
            "qk_mean: y must be f32 [4, 24] like z, got bf16 [4, 24]");
  EXPECT_EQ(message_of([&] { qk_norm(x, temp, 3, 2); }),
            "qk_norm: x must be [tokens, (3 + 2) * head_dim], got [4, 24]");
  EXPECT_EQ(message_of([&] { qk_norm(x, temp, 5, 1); }),
            "qk_norm: temp must be [1], one for each key head, got [2]");
  EXPECT_EQ(message_of([&] { qk_norm(x, Tensor({2}, DType::bf16), 4, 2); }),
            "qk_norm: temp is bf16, x is f32");
  EXPECT_EQ(message_of([&] { qk_norm(x, temp, 4, 2, Temperature::none); }),
            "qk_norm: expected no temp where there is no temperature, got [2]");
}

}  // namespace
}  // namespace tephra::qk_test
