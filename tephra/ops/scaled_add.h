// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// x + y * scale, with scale [C] over the last axis: the router's average over depth.
Tensor scaled_add(const Tensor& x, const Tensor& y, const Tensor& scale);

namespace kernel {

struct ScaledAdd {
  const Tensor& x;
  const Tensor& y;
  const Tensor& scale;
  Tensor& out;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// The gradient of x is dout itself.
struct ScaledAddGrad {
  const Tensor& dout;
  const Tensor& y;
  const Tensor& scale;
  GradTarget dy, dscale;  // undefined when not wanted

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
