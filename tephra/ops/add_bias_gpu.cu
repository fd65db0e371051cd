// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/add_bias.h"

namespace tephra::kernel {
namespace {

template <class T>
struct AddBiasColumns {
  gpu::Rows<const T> x;
  const T* bias;
  gpu::Rows<T> y;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    const auto a = gpu::load<W>(x[r] + c), b = gpu::load<W>(bias + c);
    gpu::store(y[r] + c, gpu::Floats<W>::of([&](int i) { return a[i] + b[i]; }));
  }
};

}  // namespace

void AddBias::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    const AddBiasColumns<T> f{gpu::rows_of<const T>(x), bias.data<T>(), gpu::rows_of<T>(y)};
    gpu::for_each_wide(stream, x.rows(), x.cols(), gpu::are_wide(x.cols(), f.x, f.bias, f.y), f);
  });
}

void AddBiasGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(dy.dtype(), [&]<class T>() {
    gpu::sum_rows(stream, gpu::rows_of<const T>(dy), dy.rows(), dy.cols(), dbias.data<float>(),
                  accumulate_dbias);
  });
}

}  // namespace tephra::kernel
