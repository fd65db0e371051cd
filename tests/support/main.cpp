// SPDX-License-Identifier: Apache-2.0
// Every test binary's main. TEPHRA_TEST_AVX2=1: no wider vectors than AVX2 has.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tephra/device/machine.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (std::getenv("TEPHRA_TEST_AVX2") != nullptr) tephra::use_avx2_at_most();
  return RUN_ALL_TESTS();
}
