// SPDX-License-Identifier: Apache-2.0
// What --device, --dtype and --weights mean for a model that is only run.
#pragma once

#include <string>

#include "tephra/base/files.h"
#include "tephra/cli/command.h"
#include "tephra/core/dtype.h"
#include "tephra/device/device.h"
#include "tephra/models/model.h"

namespace tephra {

// `text` is a value of --device. Quantised models have kernels for the CPU alone: "auto" takes it,
// and says so where a GPU is left idle; a GPU by name is refused when the model is loaded.
Device device_for(const Path& folder, const std::string& text);
// The choice itself; `found` is what `text` names on this machine.
Device device_for(bool quantised, const std::string& text, Device found);

// `text` is a value of --dtype; "auto" is f32 on the CPU and bf16 on a GPU, whose kernels for
// single tokens compute in it.
DType dtype_for(const std::string& text, Device device);

// --weights, where `text` is the default, and what its value means.
void describe_weights(Flags& flags, std::string& text);
WeightPlace place_for(const std::string& text);

}  // namespace tephra
