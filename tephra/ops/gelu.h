// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// x * Phi(x), with Phi the distribution function of the normal law (the erf form, not tanh's).
Tensor gelu(const Tensor& x);

namespace kernel {

struct Gelu {
  const Tensor& x;
  Tensor& y;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct GeluGrad {
  const Tensor& dy;
  const Tensor& x;
  GradTarget dx;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
