// SPDX-License-Identifier: Apache-2.0
// What --device, --dtype and --weights mean for a model, and what its weights take.
#pragma once

#include <memory>
#include <string>

#include "tephra/cli/command.h"
#include "tephra/core/dtype.h"
#include "tephra/device/device.h"
#include "tephra/models/model.h"

namespace tephra {

// `text` is a value of --dtype; "auto" is f32 on the CPU and bf16 on a GPU, whose kernels for
// single tokens compute in it.
DType dtype_for(const std::string& text, Device device);

// --device, where `text` is the default; `more` ends what the help says of it.
void describe_device(Flags& flags, std::string& text, const std::string& more = {});

// --weights, where `text` is the default, and what its value means.
void describe_weights(Flags& flags, std::string& text);
WeightPlace place_for(const std::string& text);

// The flags of commands that run a model: --dtype, --device and --weights.
struct ModelFlags {
  std::string dtype = "auto", device = "auto", weights = "auto";

  void describe(Flags& flags);
  // Where it will run, in which arithmetic, and whether for many tokens (LoadOptions:
  // copy_small_pages). Says how much of a GPU's memory the weights take.
  std::unique_ptr<Model> load(const Path& folder, Device on, bool many_tokens = true) const;
};

}  // namespace tephra
