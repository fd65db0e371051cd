// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// Brings each head of x = [query heads | key heads] to the length sqrt(head_dim):
// x * sqrt(head_dim) / max(|x|, eps), eps being the acc dtype's; key head j is then multiplied by
// temp[j]. Statistics and products are in the acc dtype, rounded once.
Tensor qk_norm(const Tensor& x, const Tensor& temp, int64_t nq, int64_t nk);

namespace kernel {

struct QkNorm {
  const Tensor& x;
  const Tensor& temp;  // [nk]
  int64_t nq, nk;
  Tensor& y;
  Tensor& length;  // [N, nq + nk], acc dtype: |x| of each head

  void on_cpu() const;
};

struct QkNormGrad {
  const Tensor& dy;
  const Tensor& x;
  const Tensor& temp;
  const Tensor& length;
  int64_t nq, nk;
  GradTarget dx, dtemp;  // undefined when not wanted

  void on_cpu() const;
};

}  // namespace kernel
}  // namespace tephra
