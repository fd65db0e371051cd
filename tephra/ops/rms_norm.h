// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// y = weight * x / sqrt(mean(x^2) + eps), over the last axis; statistics in the acc dtype.
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps);

namespace kernel {

struct RmsNorm {
  const Tensor& x;       // [N, C]
  const Tensor& weight;  // [C]
  double eps;
  Tensor& y;     // like x
  Tensor& rstd;  // [N], acc dtype

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct RmsNormGrad {
  const Tensor& dy;
  const Tensor& x;
  const Tensor& weight;
  const Tensor& rstd;
  Tensor dx;  // undefined when not wanted
  bool accumulate_dx;
  Tensor dweight;  // undefined when not wanted
  bool accumulate_dweight;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
