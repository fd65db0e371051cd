// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// to[row_N[i]] = from[i]: how new keys and values enter a cache. Rows are distinct. Not recorded.
void copy_rows(const Tensor& to, const Tensor& row_N, const Tensor& from);
// to[i] = from[row_N[i]]: how the state of some sequences is taken out of that of all. Not
// recorded.
void take_rows(const Tensor& to, const Tensor& from, const Tensor& row_N);

namespace kernel {

struct TakeRows {
  const Tensor& to;
  const Tensor& from;
  const Tensor& row_N;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct CopyRows {
  const Tensor& to;
  const Tensor& row_N;
  const Tensor& from;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
