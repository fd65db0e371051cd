// SPDX-License-Identifier: Apache-2.0
// One declaration per op, many uses: the op suite (tests/ops) checks every case against the naive
// loop, in every dtype, with its gradients, thread counts and recomputation; `tephra bench ops`
// times the bench cases. Each op's declaration is in <op>_spec.cpp, the table in registry.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tephra/core/segments.h"
#include "tephra/core/tensor.h"
#include "tephra/device/ceilings.h"

namespace tephra {

// Decides in which dtype an input is given when the op is tested in dtype T.
enum class Role {
  activation,  // T, gradient in T
  parameter,   // T, gradient in the acc dtype of T
  stream,      // acc dtype of T (residual stream, statistics), gradient likewise
  index,       // i32, given by `values`
};

struct InputSpec {
  Shape shape;
  Role role = Role::activation;
  double mean = 0;  // elements are mean + scale * normal
  double scale = 1;
  bool gradient = true;
  Tensor values;  // role index: what the input holds

  static InputSpec parameter(const Shape& shape, double mean = 0, double scale = 1) {
    return {shape, Role::parameter, mean, scale, true, {}};
  }
  static InputSpec stream(const Shape& shape, double mean = 0, double scale = 1) {
    return {shape, Role::stream, mean, scale, true, {}};
  }
  static InputSpec index(const Tensor& values) {
    return {values.shape(), Role::index, 0, 0, false, values};
  }
};

// Outputs of a call; undefined and integer ones carry no gradient.
using OpFunction = std::function<Tensors(const Tensors& inputs)>;

struct OpCase {
  std::string name;  // what is special about it
  std::vector<InputSpec> inputs;
  OpFunction run;
  OpFunction naive;          // plain loops; gets and gives f64 (and i32)
  double looseness = 1;      // factor on the suite's tolerances, with a reason in the spec
  bool scalar_loss = false;  // one scalar output whose gradient is always 1 (a fused loss)
};

// What bounds the speed of an op, and by how much work.
struct OpBench {
  std::string name;
  std::vector<InputSpec> inputs;
  OpFunction run;
  // Forward and backward, for the shapes above. Zero where a bound does not apply.
  double forward_flops = 0, backward_flops = 0;
  double forward_read_bytes = 0, forward_write_bytes = 0;
  double backward_read_bytes = 0, backward_write_bytes = 0;
  // The matrix products that make up the op: `tephra bench ops` then compares it with the matrix
  // library called directly at these shapes.
  std::vector<GemmShape> forward_gemms, backward_gemms;
  // A fused loss: its gradients are computed in the forward pass when a tape records.
  bool gradients_in_forward = false;
};

struct OpSpec {
  std::string name;
  std::vector<OpCase> cases;
  std::vector<OpBench> benches;
};

// Every op, in the order of registry.cpp.
std::vector<OpSpec> all_op_specs();

// The inputs of a case as tensors of `dtype`, drawn from `seed`; differentiable ones are leaves.
// They have the same bits on every device.
Tensors make_inputs(const std::vector<InputSpec>& inputs, DType dtype, uint64_t seed,
                    Device device = kCpu);

}  // namespace tephra
