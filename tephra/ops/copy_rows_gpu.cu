// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/copy_rows.h"

namespace tephra::kernel {
namespace {

template <class T>
struct CopyRowsElement {
  gpu::Rows<T> to;
  const int32_t* row;
  gpu::Rows<const T> from;

  __device__ void operator()(int64_t r, int64_t c) const { to[row[r]][c] = from[r][c]; }
};

template <class T>
struct TakeRowsElement {
  gpu::Rows<T> to;
  gpu::Rows<const T> from;
  const int32_t* row;

  __device__ void operator()(int64_t r, int64_t c) const { to[r][c] = from[row[r]][c]; }
};

}  // namespace

void TakeRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(to.dtype(), [&]<class T>() {
    gpu::for_each(stream, to.rows(), to.cols(),
                  TakeRowsElement<T>{gpu::rows_of<T>(to), gpu::rows_of<const T>(from),
                                     row_N.data<int32_t>()});
  });
}

void CopyRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(to.dtype(), [&]<class T>() {
    gpu::for_each(stream, from.rows(), from.cols(),
                  CopyRowsElement<T>{gpu::rows_of<T>(to), row_N.data<int32_t>(),
                                     gpu::rows_of<const T>(from)});
  });
}

}  // namespace tephra::kernel
