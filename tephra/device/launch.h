// SPDX-License-Identifier: Apache-2.0
// Runs a kernel where its tensors are. A kernel is a struct whose fields are the arguments and
// whose member functions are the backends. The CPU's is the only one so far.
#pragma once

#include <string_view>

#include "tephra/base/error.h"
#include "tephra/device/device.h"

namespace tephra {

template <class Kernel>
void launch(Device device, std::string_view name, const Kernel& kernel) {
  if (device.kind == Device::Kind::cpu) {
    kernel.on_cpu();
  } else {
    throw Error(Fault::device, format("{}: no kernel for device {}", name, device),
                "use --device cpu");
  }
}

}  // namespace tephra
