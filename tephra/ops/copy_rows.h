// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// to[row_N[i]] = from[i]: how new keys and values enter a cache. Rows are distinct. Not recorded.
void copy_rows(const Tensor& to, const Tensor& row_N, const Tensor& from);

namespace kernel {

struct CopyRows {
  const Tensor& to;
  const Tensor& row_N;
  const Tensor& from;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
