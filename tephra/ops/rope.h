// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// Which dimensions of a head turn, and in which pairs.
struct RopeForm {
  int64_t head_dim;
  int64_t rotary_dim;
  double theta;
  int64_t first = 0;         // the first dimension that turns
  bool interleaved = false;  // pairs (2i, 2i + 1) of these; else (i, i + rotary_dim / 2)
};

// Rotates rotary_dim dimensions of every head of x [N, heads * head_dim] by the token's position,
// pair i by the angle position * theta^(-2 i / rotary_dim). The rest passes through.
Tensor rope(const Tensor& x, const Tensor& position_N, const RopeForm& form);

namespace kernel {

struct Rope {
  const Tensor& x;
  const Tensor& position_N;  // i32
  RopeForm form;
  bool inverse;  // turns back: the gradient
  GradTarget y;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
