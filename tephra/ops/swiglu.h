// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// silu(gate) * up, with x = [gate | up] of shape [N, 2F]: [N, F].
Tensor swiglu(const Tensor& x);

namespace kernel {

struct Swiglu {
  const Tensor& x;  // [N, 2F]
  Tensor& y;        // [N, F]

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct SwigluGrad {
  const Tensor& dy;
  const Tensor& x;
  GradTarget dx;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
