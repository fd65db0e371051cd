// SPDX-License-Identifier: Apache-2.0
// A model's tensors written over those of another, which stays whole until all are there.
#pragma once

#include <string>
#include <vector>

#include "tephra/base/function_ref.h"
#include "tephra/io/safetensors.h"

namespace tephra {

// As write_tensor_folder. `before_replacing` is called when all files are whole under temporary
// names, before the first takes the place of a previous one.
std::vector<std::string> replace_tensor_folder(const Path& folder, std::vector<TensorEntry> entries,
                                               int64_t max_shard_bytes,
                                               FunctionRef<Tensor(const TensorEntry&)> produce,
                                               FunctionRef<void()> before_replacing);

}  // namespace tephra
