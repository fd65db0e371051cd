// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/linear.h"

#include <vector>

#include "tephra/device/cpu/gemm.h"
#include "tephra/device/cpu/packed.h"
#include "tephra/ops/add_bias.h"

namespace tephra::kernel {
namespace {

template <class T, class Out, class W>
void forward(const Linear& k) {
  std::vector<cpu::Gemm<T, Out, W>> products;
  int64_t column = 0;
  for (size_t i = 0; i < k.weights.size(); ++i) {
    const Tensor &w = k.weights[i], &b = k.biases[i];
    products.push_back({.m = k.x.rows(),
                        .n = w.rows(),
                        .k = k.x.cols(),
                        .a = k.x.data<T>(),
                        .lda = k.x.row_stride(),
                        .transpose_a = false,
                        .b = w.data<W>(),
                        .ldb = w.row_stride(),
                        .transpose_b = true,
                        .c = k.y.column_view(column, column + w.rows()).template data<Out>(),
                        .ldc = k.y.row_stride(),
                        .bias = b ? b.data<T>() : nullptr});
    column += w.rows();
  }
  cpu::gemm(std::span<const cpu::Gemm<T, Out, W>>(products));
}

// dx = dy W
template <class T>
void input_gradient(const LinearGrad& k) {
  cpu::gemm(cpu::Gemm<T, T>{.m = k.dy.rows(),
                            .n = k.x.cols(),
                            .k = k.dy.cols(),
                            .a = k.dy.data<T>(),
                            .lda = k.dy.row_stride(),
                            .transpose_a = false,
                            .b = k.weight.data<T>(),
                            .ldb = k.weight.row_stride(),
                            .transpose_b = false,
                            .c = k.dx.data<T>(),
                            .ldc = k.dx.row_stride(),
                            .accumulate = k.accumulate_dx});
}

// dW = dy^T x
template <class T>
void weight_gradient(const LinearGrad& k) {
  using Acc = acc_t<T>;
  cpu::gemm(cpu::Gemm<T, Acc>{.m = k.dy.cols(),
                              .n = k.x.cols(),
                              .k = k.dy.rows(),
                              .a = k.dy.data<T>(),
                              .lda = k.dy.row_stride(),
                              .transpose_a = true,
                              .b = k.x.data<T>(),
                              .ldb = k.x.row_stride(),
                              .transpose_b = false,
                              .c = k.dweight.data<Acc>(),
                              .ldc = k.dweight.row_stride(),
                              .accumulate = k.accumulate_dweight});
}

}  // namespace

void Linear::on_cpu() const {
  if (weights[0].dtype() != x.dtype()) return forward<float, float, bf16>(*this);
  visit_float(x.dtype(), [&]<class T>() {
    if (y.dtype() == x.dtype()) return forward<T, T, T>(*this);
    forward<T, acc_t<T>, T>(*this);
  });
}

void PackedLinear::on_cpu() const {
  std::vector<cpu::PackedProduct> products;
  int64_t column = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t out = weights[i].shape()[0];
    products.push_back({.weight = weights[i].packed().matrix(),
                        .first = 0,
                        .count = x.rows(),
                        .y = y.column_view(column, column + out).data<float>(),
                        .ldy = y.row_stride(),
                        .bias = biases[i] ? biases[i].data<float>() : nullptr});
    column += out;
  }
  cpu::packed_gemm(x.data<float>(), x.rows(), x.cols(), x.row_stride(), products);
}

void LinearGrad::on_cpu() const {
  visit_float(x.dtype(), [&]<class T>() {
    if (dx) input_gradient<T>(*this);
    if (dweight) weight_gradient<T>(*this);
    if (dbias) AddBiasGrad{dy, dbias, accumulate_dbias}.on_cpu();
  });
}

}  // namespace tephra::kernel
