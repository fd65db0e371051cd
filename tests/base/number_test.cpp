// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tephra {
namespace {

template <class Narrow>
Narrow from_bits(uint32_t bits) {
  Narrow value;
  value.bits = static_cast<decltype(value.bits)>(bits);
  return value;
}

template <class Narrow>
void expect_every_pattern_comes_back() {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = from_bits<Narrow>(bits);
    const Narrow back(wide);
    if (std::isnan(wide)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(back))) << bits;
    } else {
      ASSERT_EQ(back.bits, bits);
    }
  }
}

// Between each value and the next one up: halfway goes to the even one, else to the nearer.
template <class Narrow>
void expect_rounding_to_nearest_even(uint32_t last_finite) {
  for (uint32_t bits = 0; bits < last_finite; ++bits) {
    const double low = static_cast<float>(from_bits<Narrow>(bits));
    const double high = static_cast<float>(from_bits<Narrow>(bits + 1));
    const auto half = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(half), (low + high) / 2) << bits;
    ASSERT_EQ(Narrow(half).bits, bits + (bits & 1)) << bits;
    ASSERT_EQ(Narrow(std::nextafterf(half, 0.0f)).bits, bits);
    ASSERT_EQ(Narrow(std::nextafterf(half, INFINITY)).bits, bits + 1);
    ASSERT_EQ(Narrow(-half).bits, (bits + (bits & 1)) | 0x8000u);
  }
}

TEST(Bf16, EveryPatternComesBack) { expect_every_pattern_comes_back<bf16>(); }
TEST(Bf16, RoundsToNearestEven) { expect_rounding_to_nearest_even<bf16>(0x7f7f); }
TEST(F16, EveryPatternComesBack) { expect_every_pattern_comes_back<f16>(); }
TEST(F16, RoundsToNearestEven) { expect_rounding_to_nearest_even<f16>(0x7bff); }

TEST(Bf16, OverflowsToInfinityAndKeepsNan) {
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_EQ(bf16(-INFINITY).bits, 0xff80);
  EXPECT_TRUE(std::isnan(bf16(std::bit_cast<float>(0x7f800001u))));  // payload in the lost half
  EXPECT_EQ(bf16(3).bits, 0x4040);
}

TEST(F16, KnowsItsLandmarks) {
  EXPECT_EQ(static_cast<float>(from_bits<f16>(0x3c00)), 1.0f);
  EXPECT_EQ(static_cast<float>(from_bits<f16>(0x7bff)), 65504.0f);
  EXPECT_EQ(static_cast<float>(from_bits<f16>(0x0001)), 0x1p-24f);
  EXPECT_EQ(static_cast<float>(from_bits<f16>(0x0400)), 0x1p-14f);
  EXPECT_EQ(static_cast<float>(from_bits<f16>(0xfc00)), -INFINITY);
  EXPECT_EQ(f16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(0x1p-25f).bits, 0);
  EXPECT_EQ(f16(-0.0f).bits, 0x8000);
}

// OCP 8-bit floating point, e4m3: bias 7, subnormals in units of 2^-9, one NaN per sign.
TEST(Fp8E4m3, AgreesWithItsDefinition) {
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float value = from_bits<fp8_e4m3>(bits);
    const uint32_t exponent = bits >> 3 & 15, mantissa = bits & 7;
    ASSERT_EQ(std::signbit(value), (bits & 0x80) != 0);
    if (exponent == 15 && mantissa == 7) {
      ASSERT_TRUE(std::isnan(value));
      continue;
    }
    const double magnitude = exponent == 0 ? mantissa / 8.0 * std::pow(2.0, -6)
                                           : (1 + mantissa / 8.0) * std::pow(2.0, exponent - 7.0);
    ASSERT_EQ(std::abs(value), magnitude) << bits;
  }
  EXPECT_EQ(static_cast<float>(from_bits<fp8_e4m3>(0x38)), 1.0f);
  EXPECT_EQ(static_cast<float>(from_bits<fp8_e4m3>(0x7e)), 448.0f);
  EXPECT_EQ(static_cast<float>(from_bits<fp8_e4m3>(0x81)), -0x1p-9f);
}

}  // namespace
}  // namespace tephra
