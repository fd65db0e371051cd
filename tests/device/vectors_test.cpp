// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tephra/device/ceilings.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

TEST(Vectors, AreNoWiderThanToldAndAsWideAsBeforeThen) {
  const std::string usual = simd_target();
  const bool told = std::getenv("TEPHRA_TEST_AVX2") != nullptr;
#if defined(__x86_64__)
  if (told) {
    EXPECT_STREQ(simd_target(), "AVX2");
  }
  use_avx2_at_most();
  EXPECT_STREQ(simd_target(), "AVX2");
#endif
  use_avx2_at_most(told);
  EXPECT_EQ(simd_target(), usual);
}

}  // namespace
}  // namespace tephra
