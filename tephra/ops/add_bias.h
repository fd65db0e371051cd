// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// y = x + bias, row by row; the bias is given in pieces that lie side by side.
Tensor add_bias(const Tensor& x, const Tensors& biases);

namespace kernel {

struct AddBias {
  const Tensor& x;     // [N, C], a block of columns
  const Tensor& bias;  // [C]
  Tensor y;            // like x

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct AddBiasGrad {
  const Tensor& dy;  // the same block of columns
  Tensor dbias;      // [C], acc dtype
  bool accumulate_dbias;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
