// SPDX-License-Identifier: Apache-2.0
// Where tensors live and kernels run.
#pragma once

#include <string>

namespace tephra {

namespace gpu {
class Stream;  // device/gpu/platform.h
}

struct Device {
  enum class Kind { cpu, gpu };
  Kind kind = Kind::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
};

inline constexpr Device kCpu{};

std::string to_text(Device device);

// "cpu", "gpu" or "gpu:1"; "auto" is the first GPU that the build has kernels for, else the CPU. A
// device that this build or machine does not have is an error.
Device parse_device(const std::string& text);

}  // namespace tephra
