// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/mask_rows.h"

namespace tephra::kernel {
namespace {

template <class T>
struct MaskRowsElement {
  gpu::Rows<const T> from;
  const int32_t* mask;
  gpu::Rows<T> to;
  bool accumulate;

  __device__ void operator()(int64_t r, int64_t c) const {
    gpu::write(to[r] + c, mask[r] != 0 ? float(from[r][c]) : 0.0f, accumulate);
  }
};

}  // namespace

void MaskRows::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(from.dtype(), [&]<class T>() {
    gpu::for_each(stream, from.rows(), from.cols(),
                  MaskRowsElement<T>{gpu::rows_of<const T>(from), mask_N.data<int32_t>(),
                                     gpu::rows_of<T>(to), accumulate});
  });
}

}  // namespace tephra::kernel
