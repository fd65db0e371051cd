// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// Adds to the convolved queries and keys y the means of the unconvolved ones z. Rows are
// [query heads | key heads] of equal size; queries h of group j share key j, j = h / (nq / nk):
//   q_h = y_q,h + (z_q,h + z_k,j) / 2        k_j = y_k,j + (mean over h of z_q,h + z_k,j) / 2
Tensor qk_mean(const Tensor& z, const Tensor& y, int64_t nq, int64_t nk);

namespace kernel {

struct QkMean {
  const Tensor& z;
  const Tensor& y;
  int64_t nq, nk;
  Tensor& out;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// The gradient of y is dout itself.
struct QkMeanGrad {
  const Tensor& dout;
  int64_t nq, nk;
  GradTarget dz;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
