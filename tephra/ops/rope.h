// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// Rotates the first rotary_dim dimensions of every head of x [N, heads * head_dim] by the token's
// position: pairs (i, i + rotary_dim / 2), angle = position * theta^(-2 i / rotary_dim). The rest
// passes through.
Tensor rope(const Tensor& x, const Tensor& position_N, int64_t head_dim, int64_t rotary_dim,
            double theta);

namespace kernel {

struct Rope {
  const Tensor& x;
  const Tensor& position_N;  // i32
  int64_t head_dim;
  int64_t rotary_dim;
  double theta;
  bool inverse;  // turns back: the gradient
  GradTarget y;

  void on_cpu() const;
};

}  // namespace kernel
}  // namespace tephra
