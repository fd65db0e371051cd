// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/add_bias.h"

namespace tephra::kernel {
namespace {

template <class T>
struct AddBiasElement {
  gpu::Rows<const T> x;
  const T* bias;
  gpu::Rows<T> y;

  __device__ void operator()(int64_t r, int64_t c) const {
    y[r][c] = T(float(x[r][c]) + float(bias[c]));
  }
};

template <class T>
struct AddBiasTerm {
  gpu::Rows<const T> dy;

  __device__ float operator()(int64_t r, int64_t c) const { return float(dy[r][c]); }
};

}  // namespace

void AddBias::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), [&]<class T>() {
    gpu::for_each(stream, x.rows(), x.cols(),
                  AddBiasElement<T>{gpu::rows_of<const T>(x), bias.data<T>(), gpu::rows_of<T>(y)});
  });
}

void AddBiasGrad::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(dy.dtype(), [&]<class T>() {
    gpu::sum_rows(stream, dy.rows(), dy.cols(), AddBiasTerm<T>{gpu::rows_of<const T>(dy)},
                  dbias.data<float>(), accumulate_dbias);
  });
}

}  // namespace tephra::kernel
