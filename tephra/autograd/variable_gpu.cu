// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/variable.h"
#include "tephra/core/gpu_kernel.h"

namespace tephra::kernel {
namespace {

template <class To, class From>
struct AddElement {
  gpu::Rows<To> to;
  gpu::Rows<const From> from;

  __device__ void operator()(int64_t r, int64_t c) const {
    gpu::write(to[r] + c, float(from[r][c]), true);
  }
};

}  // namespace

void AddInto::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(to.dtype(), [&]<class To>() {
    gpu::visit_float(from.dtype(), [&]<class From>() {
      gpu::for_each(stream, to.rows(), to.cols(),
                    AddElement<To, From>{gpu::rows_of<To>(to), gpu::rows_of<const From>(from)});
    });
  });
}

}  // namespace tephra::kernel
