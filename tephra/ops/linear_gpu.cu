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
struct BiasColumns {
  const T* bias;
  gpu::Rows<Out> y;

  template <int W>
  __device__ void run(int64_t r, int64_t c) const {
    gpu::store(y[r] + c, gpu::load<W>(bias + c));
  }
};

void fill_bias(gpu::Stream& stream, const Tensor& bias, const Tensor& y) {
  gpu::visit_float(bias.dtype(), [&]<class T>() {
    gpu::visit_float(y.dtype(), [&]<class Out>() {
      const BiasColumns<T, Out> f{bias.data<T>(), gpu::rows_of<Out>(y)};
      gpu::for_each_wide(stream, y.rows(), y.cols(), gpu::are_wide(y.cols(), f.bias, f.y), f);
    });
  });
}

}  // namespace

namespace {

// `rows` of the weight on: its own and those of the ones that follow it.
void multiply_weight(gpu::Stream& stream, const Tensor& x, const Tensor& weight, int64_t rows,
                     const Tensor& bias, const Tensor& y) {
  const bool fused = bias && bias.dtype() == y.dtype();  // else the sum begins with the bias
  if (bias && !fused) fill_bias(stream, bias, y);
  gpu::gemm(stream, {.m = x.rows(),
                     .n = rows,
                     .k = x.cols(),
                     .a = x.raw(),
                     .lda = x.row_stride(),
                     .transpose_a = false,
                     .b = weight.raw(),
                     .ldb = weight.row_stride(),
                     .transpose_b = true,
                     .c = y.raw(),
                     .ldc = y.row_stride(),
                     .in = number_of(x),
                     .out = number_of(y),
                     .beta = bias && !fused ? 1.0f : 0.0f,
                     .bias = fused ? bias.raw() : nullptr});
}

}  // namespace

void Linear::on_gpu(gpu::Stream& stream) const {
  gpu::visit_float(x.dtype(), []<class T>() {});  // refuses f64
  const bool plain =
      std::none_of(biases.begin(), biases.end(), [](const Tensor& b) { return b.defined(); });
  const int64_t all = plain ? joined_rows(weights) : 0;
  if (all > 0) return multiply_weight(stream, x, weights[0], all, {}, y);
  int64_t column = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t end = column + weights[i].rows();
    multiply_weight(stream, x, weights[i], weights[i].rows(), biases[i],
                    y.column_view(column, end));
    column = end;
  }
}

void PackedLinear::on_gpu(gpu::Stream& stream) const {
  // Of weights written out at once: enough that the product is no slower for it.
  constexpr int64_t kRoom = int64_t{64} << 20;
  const int64_t in = x.cols(), size = size_of(x.dtype());
  const int64_t most =
      std::max<int64_t>(1, kRoom / (in * size * cpu::kPanelRows)) * cpu::kPanelRows;
  const Tensor room({std::min(most, y.cols()), in}, x.dtype(), x.device(), Purpose::workspace);
  if (y.cols() <= most) {  // all of them, one below the other
    Tensors written;
    int64_t row = 0;
    for (const Weight& w : weights) {
      written.push_back(room.slice_rows(row, row + w.shape()[0]));
      Unpack{w.packed(), written.back()}.on_gpu(stream);
      row += w.shape()[0];
    }
    return Linear{x, written, biases, y}.on_gpu(stream);
  }
  int64_t column = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t out = weights[i].shape()[0];
    for (int64_t row = 0; row < out; row += most) {
      const int64_t end = std::min(out, row + most);
      const Tensors part{room.slice_rows(0, end - row)};
      Unpack{weights[i].packed(), part[0], row}.on_gpu(stream);
      const Tensors bias{biases[i] ? biases[i].view({out, 1}).slice_rows(row, end).view({end - row})
                                   : Tensor()};
      Tensor to = y.column_view(column + row, column + end);
      Linear{x, part, bias, to}.on_gpu(stream);
    }
    column += out;
  }
}

void LinearGrad::on_gpu(gpu::Stream& stream) const {
  const int64_t n = x.rows(), in = x.cols(), out = dy.cols();
  if (dx) {
    gpu::gemm(stream, {n, in, out, dy.raw(), dy.row_stride(), false, weight.raw(),
                       weight.row_stride(), false, dx.raw(), dx.row_stride(), number_of(dy),
                       number_of(dx), 1.0f, accumulate_dx ? 1.0f : 0.0f});
  }
  if (dweight) {
    gpu::gemm_by_stretches(
        stream, {out, in, n, dy.raw(), dy.row_stride(), true, x.raw(), x.row_stride(), false,
                 dweight.raw(), dweight.row_stride(), number_of(dy), number_of(dweight), 1.0f,
                 accumulate_dweight ? 1.0f : 0.0f});
  }
  if (!dbias) return;
  gpu::visit_float(dy.dtype(), [&]<class T>() {
    gpu::sum_rows(stream, gpu::rows_of<const T>(dy), n, out, dbias.data<float>(), accumulate_dbias);
  });
}

}  // namespace tephra::kernel
