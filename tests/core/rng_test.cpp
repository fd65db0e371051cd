// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/rng.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tephra/base/parallel.h"

namespace tephra {
namespace {

using Block = std::array<uint32_t, 4>;

// Known answers published with the algorithm (philox4x32-10).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0}, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~uint64_t{0}, ~0u, ~0u}, ~uint64_t{0}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x299f31d0a4093822u, 0x13198a2eu, 0x03707344u}, 0x85a308d3243f6a88u),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DependsOnEveryPartOfItsKey) {
  const Block base = philox({1, 2, 3}, 4);
  EXPECT_NE(philox({2, 2, 3}, 4), base);
  EXPECT_NE(philox({1 | uint64_t{1} << 40, 2, 3}, 4), base);
  EXPECT_NE(philox({1, 3, 3}, 4), base);
  EXPECT_NE(philox({1, 2, 4}, 4), base);
  EXPECT_NE(philox({1, 2, 3}, 5), base);
  EXPECT_NE(philox({1, 2, 3}, 4 | uint64_t{1} << 40), base);
}

TEST(Uniform, StaysInItsInterval) {
  for (uint64_t i = 0; i < 10'000; ++i) {
    const double u = uniform({7, 0, 0}, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
  }
}

// With n samples the error of the mean of z^k is about sqrt(variance of z^k / n); bounds are 5 of
// it.
TEST(FillNormal, HasTheMomentsOfANormal) {
  constexpr int64_t kN = 200'000;
  const Tensor x({kN}, DType::f64);
  fill_normal(x, {11, 3, 0}, 2, 0.5);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (int64_t i = 0; i < kN; ++i) {
    const double z = (x.at(i) - 2) / 0.5;
    m1 += z / kN;
    m2 += z * z / kN;
    m3 += z * z * z / kN;
    m4 += z * z * z * z / kN;
  }
  const double e = 5 / std::sqrt(double(kN));
  EXPECT_NEAR(m1, 0, e);
  EXPECT_NEAR(m2, 1, e * std::sqrt(2.0));
  EXPECT_NEAR(m3, 0, e * std::sqrt(15.0));
  EXPECT_NEAR(m4, 3, e * std::sqrt(96.0));
}

TEST(FillUniform, CoversItsInterval) {
  const Tensor x({100'000}, DType::f32);
  fill_uniform(x, {11, 4, 0}, -1, 3);
  double low = 3, high = -1, mean = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    low = std::min(low, x.at(i));
    high = std::max(high, x.at(i));
    mean += x.at(i) / double(x.numel());
  }
  EXPECT_GE(low, -1);
  EXPECT_LE(high, 3);
  EXPECT_NEAR(low, -1, 1e-3);
  EXPECT_NEAR(high, 3, 1e-3);
  EXPECT_NEAR(mean, 1, 5 * 4 / std::sqrt(12.0 * 1e5));
}

TEST(FillNormal, IsTheSameOnAnyNumberOfThreads) {
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one({70'000}, DType::f32);
  fill_normal(one, {5, 1, 2}, 0, 1);
  for (const int threads : {2, 3, 8, 16}) {
    set_num_threads(threads);
    const Tensor many({70'000}, DType::f32);
    fill_normal(many, {5, 1, 2}, 0, 1);
    EXPECT_TRUE(same_bits(one, many)) << threads;
  }
  set_num_threads(before);
}

TEST(FillNormal, OfAViewCountsItsOwnElements) {
  const Tensor whole = zeros({3, 8}, DType::f32), part({3, 2}, DType::f32);
  fill_normal(whole.column_view(4, 6), {5, 1, 2}, 0, 1);
  fill_normal(part, {5, 1, 2}, 0, 1);
  EXPECT_TRUE(same_bits(whole.column_view(4, 6), part));
  EXPECT_EQ(whole.at(3), 0);
  EXPECT_EQ(whole.at(6), 0);
}

TEST(FillNormal, InNarrowTypesIsTheRoundedWideOne) {
  const Tensor wide({64}, DType::f32), narrow({64}, DType::bf16);
  fill_normal(wide, {5, 1, 2}, 0, 1);
  fill_normal(narrow, {5, 1, 2}, 0, 1);
  EXPECT_TRUE(same_bits(to_dtype(wide, DType::bf16), narrow));
}

TEST(StreamOf, SeparatesNames) {
  EXPECT_EQ(stream_of("a"), stream_of("a"));
  EXPECT_NE(stream_of("layers.1.weight"), stream_of("layers.2.weight"));
  EXPECT_EQ(stream_of("a"), 0xe40c292cu) << "FNV-1a; a change would redraw every random model";
}

}  // namespace
}  // namespace tephra
