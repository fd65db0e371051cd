// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

// How a key head's temperature t acts: as the factor t, as exp(t), or not at all.
enum class Temperature { linear, exp, none };

// Brings each head of x = [query heads | key heads] to the length sqrt(head_dim):
// x * sqrt(head_dim) / max(|x|, eps), eps being the acc dtype's; key head j is then multiplied by
// what temp[j] says. Statistics and products are in the acc dtype, rounded once. Without a
// temperature, temp is undefined.
Tensor qk_norm(const Tensor& x, const Tensor& temp, int64_t nq, int64_t nk,
               Temperature form = Temperature::linear);

namespace kernel {

struct QkNorm {
  const Tensor& x;
  const Tensor& temp;  // [nk], undefined for Temperature::none
  int64_t nq, nk;
  Temperature form;
  Tensor& y;
  Tensor& length;  // [N, nq + nk], acc dtype: |x| of each head

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct QkNormGrad {
  const Tensor& dy;
  const Tensor& x;
  const Tensor& temp;
  const Tensor& length;
  int64_t nq, nk;
  Temperature form;
  GradTarget dx, dtemp;  // undefined when not wanted

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
