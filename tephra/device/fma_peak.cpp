// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/fma_peak.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tephra/base/clock.h"
#include "tephra/base/format.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

// The first "key : value" of each key in /proc/cpuinfo.
std::string cpuinfo(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon + 2 > line.size()) continue;
    std::string name = line.substr(0, colon);
    name.erase(name.find_last_not_of(" \t") + 1);
    if (name == key) return line.substr(colon + 2);
  }
  return "";
}

int number(const std::string& text) {
  int value = 0;
  std::istringstream(text) >> value;
  return value;
}

double stated_ghz() {
  double khz = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") >> khz;
  return khz / 1e6;
}

// An addition takes one cycle everywhere, and each of these needs the result of the one before.
double measured_ghz() {
  constexpr int kAdditions = 1 << 18;
  double best = 0;
  for (int pass = 0; pass < 96; ++pass) {
    uint64_t sum = 0, one = 1;
    asm volatile("" : "+r"(one));
    const double seconds = seconds_of([&] {
      for (int i = 0; i < kAdditions; i += 8) {
        for (int j = 0; j < 8; ++j) {
          sum += one;
          asm volatile("" : "+r"(sum));
        }
      }
    });
    best = std::max(best, kAdditions / seconds / 1e9);
  }
  return best;
}

}  // namespace

int fma_flops_per_cycle(const std::string& vendor, int family, int model,
                        const std::string& flags) {
  const std::string padded = " " + flags + " ";
  const auto has = [&](const char* flag) {
    return padded.find(format(" {} ", flag)) != std::string::npos;
  };
  if (!has("fma")) return 0;
  if (vendor == "AuthenticAMD") {
    if (family == 23) return model < 0x30 ? 16 : 32;  // Zen and Zen 2
    if (family == 25) return 32;                      // Zen 3 and 4: two units of 256 bits
    if (family == 26) return has("avx512f") ? 64 : 32;
  }
  // Two units of the widest vectors; the few server parts with one are not told apart.
  if (vendor == "GenuineIntel" && has("avx2")) return has("avx512f") ? 64 : 32;
  return 0;
}

FmaPeak fma_peak(int threads) {
  FmaPeak peak;
  peak.cores = std::min(threads, this_machine().physical_cores);
  peak.flops_per_cycle = fma_flops_per_cycle(cpuinfo("vendor_id"), number(cpuinfo("cpu family")),
                                             number(cpuinfo("model")), cpuinfo("flags"));
  peak.ghz = stated_ghz();
  peak.clock_measured = peak.ghz == 0;
  if (peak.clock_measured) peak.ghz = measured_ghz();
  return peak;
}

std::string FmaPeak::text() const {
  if (flops_per_cycle == 0) return "not known for this processor";
  return format("{} cores x {} FLOPs a cycle x {:.2f} GHz ({})", cores, flops_per_cycle, ghz,
                clock_measured ? "clock measured" : "highest clock");
}

}  // namespace tephra
