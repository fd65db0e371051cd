// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/gemm.h"
#include "tephra/ops/linear.h"

namespace tephra::kernel {
namespace {

gpu::Number number_of(const Tensor& t) {
  return t.dtype() == DType::f32 ? gpu::Number::f32 : gpu::Number::bf16;
}

// Every row of y becomes the bias; the product is then added to it before it is rounded.
template <class T, class Out>
struct BiasElement {
  const T* bias;
  gpu::Rows<Out> y;

  __device__ void operator()(int64_t r, int64_t c) const { y[r][c] = Out(float(bias[c])); }
};

template <class T>
struct LinearBiasTerm {
  gpu::Rows<const T> dy;

  __device__ float operator()(int64_t r, int64_t c) const { return float(dy[r][c]); }
};

void fill_bias(gpu::Stream& stream, const Tensor& bias, const Tensor& y) {
  gpu::visit_float(bias.dtype(), [&]<class T>() {
    gpu::visit_float(y.dtype(), [&]<class Out>() {
      gpu::for_each(stream, y.rows(), y.cols(),
                    BiasElement<T, Out>{bias.data<T>(), gpu::rows_of<Out>(y)});
    });
  });
}

}  // namespace

void Linear::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), []<class T>() {});  // refuses f64
  for (size_t i = 0, column = 0; i < weights.size(); ++i) {
    const Tensor& w = weights[i];
    const auto begin = static_cast<int64_t>(column), end = begin + w.rows();
    const Tensor out = y.column_view(begin, end);
    if (biases[i]) fill_bias(stream, biases[i], out);
    gpu::gemm(stream, {x.rows(), w.rows(), x.cols(), x.raw(), x.row_stride(), false, w.raw(),
                       w.row_stride(), true, out.raw(), out.row_stride(), number_of(x),
                       number_of(y), 1.0f, biases[i] ? 1.0f : 0.0f});
    column = static_cast<size_t>(end);
  }
}

void LinearGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t n = x.rows(), in = x.cols(), out = weight.rows();
  if (dx) {
    gpu::gemm(stream, {n, in, out, dy.raw(), dy.row_stride(), false, weight.raw(),
                       weight.row_stride(), false, dx.raw(), dx.row_stride(), number_of(dy),
                       number_of(dx), 1.0f, accumulate_dx ? 1.0f : 0.0f});
  }
  if (dweight) {
    gpu::gemm(stream, {out, in, n, dy.raw(), dy.row_stride(), true, x.raw(), x.row_stride(), false,
                       dweight.raw(), dweight.row_stride(), number_of(dy), number_of(dweight), 1.0f,
                       accumulate_dweight ? 1.0f : 0.0f});
  }
  if (!dbias) return;
  gpu::visit_float(dy.dtype(), [&]<class T>() {
    gpu::sum_rows(stream, n, out, LinearBiasTerm<T>{gpu::rows_of<const T>(dy)}, dbias.data<float>(),
                  accumulate_dbias);
  });
}

}  // namespace tephra::kernel
