// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// Rows of x where mask_N (i32) is not zero; zeros elsewhere.
Tensor mask_rows(const Tensor& x, const Tensor& mask_N);

namespace kernel {

// to = from, or to += from, where the mask allows.
struct MaskRows {
  const Tensor& from;
  const Tensor& mask_N;
  Tensor to;
  bool accumulate;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
