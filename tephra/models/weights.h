// SPDX-License-Identifier: Apache-2.0
// From the tensors of a checkpoint, in whatever layout it has, to a model's parameters. A model
// says which stored tensors make up which parameter; what is done with that (checking, loading,
// rewriting) is the same for all.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tephra/autograd/parameter.h"
#include "tephra/io/safetensors.h"

namespace tephra {

struct WeightSource {
  ParameterSpec parameter;
  std::vector<std::string> from;  // one tensor, or several of equal shape to be stacked in order
  std::string scale = {};         // one f32 factor per row of an fp8 tensor; empty: none
  std::optional<PackedFormat> packed = {};  // one u8 tensor of packed_shape()
};

struct WeightPlan {
  std::vector<WeightSource> sources;
  // Tensors that may be stored although another one holds the same values: {copy, original}.
  std::vector<std::pair<std::string, std::string>> copies = {};
  // Tensors that carry nothing, such as derived tables.
  std::function<bool(std::string_view name)> ignored = {};
};

// Fills in the scales of fp8 tensors, accounts for every tensor of the folder, and says what is
// missing, unknown, or of a wrong shape or dtype.
std::vector<std::string> weight_problems(const TensorFolder& folder, WeightPlan& plan);
// The same as one Fault::data that lists the first few.
void check_weights(const TensorFolder& folder, WeightPlan& plan);

// What the parameter is stored as; for fp8 with scales and packed ones bf16, the dtype they are
// widened to.
DType stored_dtype(const TensorFolder& folder, const WeightSource& source);

// Converts into `to`, which has the parameter's shape.
void copy_weight(const TensorFolder& folder, const WeightSource& source, const Tensor& to);

// The parameter in `dtype`: a view of the file where it is stored so, else a copy.
Tensor read_weight(const TensorFolder& folder, const WeightSource& source, DType dtype);

// Lets go of the memory of tensors that were read.
void release(const TensorFolder& folder, const WeightSource& source);

}  // namespace tephra
