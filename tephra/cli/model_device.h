// SPDX-License-Identifier: Apache-2.0
// What --dtype means for a model that is only run, and what its weights take.
#pragma once

#include <string>

#include "tephra/core/dtype.h"
#include "tephra/device/device.h"

namespace tephra {

// `text` is a value of --dtype; "auto" is f32 on the CPU and bf16 on a GPU, whose kernels for
// single tokens compute in it.
DType dtype_for(const std::string& text, Device device);

// Says how much of a GPU's memory the weights take, once they are there; nothing on the CPU.
void log_weights(Device device);

}  // namespace tephra
