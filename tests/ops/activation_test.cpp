// SPDX-License-Identifier: Apache-2.0
// gelu, swiglu and scaled_add beyond the op suite: accuracy over the whole line, and wrong use.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tephra/autograd/tape.h"
#include "tephra/ops/gelu.h"
#include "tephra/ops/scaled_add.h"
#include "tephra/ops/swiglu.h"
#include "tests/support/message_of.h"

namespace tephra::activation_test {  // a name of its own: test files are compiled together
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// 16001 points of [-16, 16], zero included.
Tensor line() {
  Tensor x({1, 16001}, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>(i - 8000) / 500);
  return x;
}

// Half a unit in the last place of a float near y.
double rounding(double y) { return std::abs(y) * 0x1p-24; }

TEST(Gelu, IsExactToFloatRoundingOverTheWholeLine) {
  Tensor x = line();
  make_leaf(x, DType::f32);
  Tape tape;
  const Tensor y = gelu(x);
  tape.backward({y}, {full(x.shape(), DType::f32, 1)});
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double v = x.at(i), phi = 0.5 * std::erfc(-v / std::sqrt(2.0));
    const double slope = phi + v * std::exp(-v * v / 2) / std::sqrt(2 * M_PI);
    ASSERT_NEAR(y.at(i), v * phi, 1.5e-7 + rounding(v * phi)) << v;
    ASSERT_NEAR(gradient(x).at(i), slope, 2e-7) << v;
  }
}

TEST(Gelu, KeepsItsTails) {
  const Tensor y = gelu(from_values<float>({1, 5}, {-1e30f, -6, 1e30f, kInf, kNan}));
  EXPECT_EQ(y.at(0), 0);
  EXPECT_NEAR(y.at(1) / (-6 * 0.5 * std::erfc(6 / std::sqrt(2.0))), 1, 1e-5);
  EXPECT_EQ(static_cast<float>(y.at(2)), 1e30f);
  EXPECT_EQ(y.at(3), static_cast<double>(kInf));
  EXPECT_TRUE(std::isnan(y.at(4)));
}

// The gate runs along the line, up is 1.
TEST(Swiglu, IsExactToFloatRoundingOverTheWholeLine) {
  const Tensor gate = line();
  const int64_t n = gate.numel();
  Tensor x({1, 2 * n}, DType::f32);
  for (int64_t i = 0; i < n; ++i) {
    x.set(i, gate.at(i) * 6);
    x.set(n + i, 1);
  }
  const Tensor y = swiglu(x);
  for (int64_t i = 0; i < n; ++i) {
    const double v = x.at(i), silu = v / (1 + std::exp(-v));
    ASSERT_NEAR(y.at(i), silu, std::abs(silu) * 3e-7 + 1e-35) << v;
  }
}

TEST(Swiglu, StaysFiniteWhereExpDoesNotAndShowsNan) {
  Tensor x = from_values<float>({1, 8}, {-1e38f, 1e30f, kNan, -100, 1, 2, 1, 1});
  make_leaf(x, DType::f32);
  Tape tape;
  const Tensor y = swiglu(x);
  tape.backward({y}, {full({1, 4}, DType::f32, 1)});
  EXPECT_EQ(y.at(0), 0);
  EXPECT_EQ(static_cast<float>(y.at(1)), 2e30f);
  EXPECT_TRUE(std::isnan(y.at(2)));
  EXPECT_NEAR(y.at(3), 0, 1e-35);
  EXPECT_EQ(gradient(x).at(0), 0);
  EXPECT_EQ(gradient(x).at(1), 2);
  EXPECT_TRUE(std::isnan(gradient(x).at(2)));
}

TEST(Activations, SayWhatDoesNotFit) {
  const Tensor x({4, 7}, DType::f32), v({7}, DType::f32);
  EXPECT_EQ(message_of([&] { gelu(v); }), "gelu: x must be [tokens, width], got [7]");
  EXPECT_EQ(message_of([&] { swiglu(x); }),
            "swiglu: x must be [tokens, 2 * width], the gate first, got [4, 7]");
  EXPECT_EQ(message_of([&] { scaled_add(v, v, v); }),
            "scaled_add: x must be [tokens, width], got [7]");
  EXPECT_EQ(message_of([&] {
              scaled_add(x, Tensor({4, 8}, DType::f32), v);
            }),
            "scaled_add: y must be [4, 7] like x, got [4, 8]");
  EXPECT_EQ(message_of([&] { scaled_add(x, x, Tensor({4}, DType::f32)); }),
            "scaled_add: scale must be [7] to match the last axis of x [4, 7], got [4]");
  EXPECT_EQ(message_of([&] {
              scaled_add(x, Tensor({4, 7}, DType::bf16), v);
            }),
            "scaled_add: y is bf16 and scale is f32, x is f32");
}

}  // namespace
}  // namespace tephra::activation_test
