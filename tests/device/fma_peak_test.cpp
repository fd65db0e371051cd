// SPDX-License-Identifier: Apache-2.0
// The peak of a datasheet by the words of /proc/cpuinfo, and kernels that are timed by name.
#include "tephra/device/fma_peak.h"

#include <gtest/gtest.h>

#include "tephra/device/launch.h"

namespace tephra {
namespace {

TEST(FmaPeak, KnowsTheUnitsOfProcessors) {
  EXPECT_EQ(fma_flops_per_cycle("AuthenticAMD", 25, 17, "sse fma avx2 avx512f"), 32) << "Zen 4";
  EXPECT_EQ(fma_flops_per_cycle("AuthenticAMD", 26, 2, "fma avx2 avx512f"), 64) << "Zen 5";
  EXPECT_EQ(fma_flops_per_cycle("AuthenticAMD", 23, 1, "fma avx2"), 16) << "Zen";
  EXPECT_EQ(fma_flops_per_cycle("AuthenticAMD", 23, 0x31, "fma avx2"), 32) << "Zen 2";
  EXPECT_EQ(fma_flops_per_cycle("GenuineIntel", 6, 143, "fma avx2 avx512f"), 64);
  EXPECT_EQ(fma_flops_per_cycle("GenuineIntel", 6, 60, "fma avx2"), 32);
  EXPECT_EQ(fma_flops_per_cycle("GenuineIntel", 6, 42, "avx avx2"), 0) << "without fma";
  EXPECT_EQ(fma_flops_per_cycle("Somebody", 1, 1, "fma avx2"), 0);
}

TEST(FmaPeak, IsMadeOfCoresAndClock) {
  const FmaPeak peak{.cores = 2, .flops_per_cycle = 32, .ghz = 3.5, .clock_measured = true};
  EXPECT_DOUBLE_EQ(peak.gflops(), 224);
  EXPECT_EQ(peak.text(), "2 cores x 32 FLOPs a cycle x 3.50 GHz (clock measured)");
  EXPECT_EQ(FmaPeak{.cores = 2}.text(), "not known for this processor");
  const FmaPeak here = fma_peak(1);
  EXPECT_EQ(here.cores, 1);
#ifndef TEPHRA_SANITIZED  // there the loop that is timed runs something else
  EXPECT_GT(here.ghz, 0.1);
#endif
  EXPECT_LT(here.ghz, 10);
}

struct Nothing {
  void on_cpu() const {}
};

TEST(KernelTimes, CountsTheLaunchesOfItsThread) {
  EXPECT_EQ(KernelTimes::current(), nullptr);
  launch(kCpu, "before", Nothing{});
  const KernelTimes times;
  launch(kCpu, "a", Nothing{});
  {
    const KernelTimes inner;
    launch(kCpu, "b", Nothing{});
    EXPECT_EQ(inner.entries().size(), 1u);
  }
  launch(kCpu, "a", Nothing{});
  ASSERT_EQ(times.entries().size(), 1u);
  EXPECT_EQ(times.entries().at("a").launches, 2);
  EXPECT_GE(times.seconds(), 0);
}

}  // namespace
}  // namespace tephra
