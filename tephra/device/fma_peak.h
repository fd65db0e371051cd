// SPDX-License-Identifier: Apache-2.0
// What the cores could do at most if they did nothing but fused multiply-adds: the peak of a
// datasheet, made of what the instruction set, the clock and the number of cores are.
#pragma once

#include <string>

namespace tephra {

struct FmaPeak {
  int cores = 0;            // that this many threads can keep busy
  int flops_per_cycle = 0;  // in f32, of one core; 0: this processor is not known
  double ghz = 0;
  bool clock_measured = false;  // else the highest that the system states

  double gflops() const { return cores * flops_per_cycle * ghz; }
  // "2 cores x 32 FLOPs a cycle x 3.70 GHz (clock measured)"
  std::string text() const;
};

// Hypervisors state no clock but a nominal one, which the cores exceed: where the system does not
// know the highest, it is measured (some milliseconds).
FmaPeak fma_peak(int threads);

// For fma_peak: FLOPs of f32 in a cycle by the words of /proc/cpuinfo; 0 when not known.
int fma_flops_per_cycle(const std::string& vendor, int family, int model, const std::string& flags);

}  // namespace tephra
