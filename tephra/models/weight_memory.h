// SPDX-License-Identifier: Apache-2.0
// Weights in large pages: read from a model's files into memory of our own, one behind the other,
// or mapped.
#pragma once

#include <vector>

#include "tephra/io/safetensors.h"
#include "tephra/models/model.h"

namespace tephra {

// Whether so many bytes of weights are to be copied. What `automatic` asks for: large pages,
// without which a copy is no faster than the file, and half of the memory that is free left for
// others.
bool belongs_in_memory(WeightPlace place, int64_t bytes);

// These tensors, in this order. Shows progress; Fault::device when they do not fit.
Tensors read_into_memory(const TensorFolder& folder, const std::vector<std::string>& names);

// For tensors that stay in the files: what the system's cache holds of them in small pages is
// copied into large ones of our own, if half of the memory that is free has room for all of it,
// after `other` bytes that the model will take. Shows progress; never fails for want of memory.
void copy_small_pages(const TensorFolder& folder, const std::vector<std::string>& names,
                      int64_t other);

}  // namespace tephra
