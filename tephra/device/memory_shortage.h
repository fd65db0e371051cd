// SPDX-License-Identifier: Apache-2.0
// What is said when memory of a GPU does not fit.
#pragma once

#include <array>
#include <string>

#include "tephra/device/gpu/runtime.h"
#include "tephra/device/memory.h"

namespace tephra {

struct MemoryShortage {
  Device device;
  int64_t bytes;  // that do not fit
  Purpose purpose;
  gpu::Memory memory;                              // of the device
  std::array<MemoryUse, kNumPurposes + 1> in_use;  // of this process

  std::string text() const;
  std::string hint() const;
};

}  // namespace tephra
