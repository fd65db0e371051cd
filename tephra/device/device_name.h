// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/base/function_ref.h"
#include "tephra/device/device.h"

namespace tephra {

// "auto" where there are so many GPUs: the first that can be used, else the CPU.
struct AutoDevice {
  Device device;
  std::string why_cpu;  // where there are GPUs, but none that can be used
};
AutoDevice auto_device(int num_gpus, FunctionRef<const std::string&(int index)> why_unusable);

// What the text of --device names, whether this machine has it or not; parse_device asks for that,
// too. Fault::usage when it names none.
Device device_named(const std::string& text);

}  // namespace tephra
