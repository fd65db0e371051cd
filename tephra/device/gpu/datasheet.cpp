// SPDX-License-Identifier: Apache-2.0
#include "tephra/device/gpu/datasheet.h"

namespace tephra::gpu {
namespace {

// Dense TFLOP/s. Of names that are parts of each other the longer one comes first.
struct Known {
  const char* name;
  double tflops;
};
constexpr Known kKnown[] = {{"H200 NVL", 835.5},  {"GH200", 989.5},    {"H200", 989.5},
                            {"H100 PCIe", 756.5}, {"H100 NVL", 835.5}, {"H100", 989.5},
                            {"A100", 312},        {"MI300X", 1307.4},  {"MI300A", 980.6},
                            {"MI325X", 1307.4}};

}  // namespace

double datasheet_flops(const std::string& name) {
  for (const Known& k : kKnown) {
    if (name.find(k.name) != std::string::npos) return k.tflops * 1e12;
  }
  return 0;
}

}  // namespace tephra::gpu
