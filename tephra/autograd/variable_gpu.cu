// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/variable.h"
#include "tephra/core/gpu_kernel.h"

namespace tephra::kernel {
namespace {

template <class To, class From>
struct AddColumns {
  gpu::Rows<To> to;
  gpu::Rows<const From> from;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::write(to[r] + c, gpu::load<W>(from[r] + c), true);
  }
};

}  // namespace

void AddInto::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(to.dtype(), [&]<class To>() {
    gpu::visit_float(from.dtype(), [&]<class From>() {
      const AddColumns<To, From> f{gpu::rows_of<To>(to), gpu::rows_of<const From>(from)};
      gpu::for_each_wide(stream, to.rows(), to.cols(), gpu::are_wide(to.cols(), f.to, f.from), f);
    });
  });
}

}  // namespace tephra::kernel
