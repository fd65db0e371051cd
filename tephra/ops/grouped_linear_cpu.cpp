// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "tephra/device/cpu/gemm.h"
#include "tephra/device/cpu/packed.h"
#include "tephra/ops/grouped_linear.h"

namespace tephra::kernel {
namespace {

struct Rows {
  int64_t begin, count;
};

Rows rows_of(const Tensor& offsets, int64_t expert) {
  const int32_t* at = offsets.data<int32_t>() + expert;
  return {at[0], at[1] - at[0]};
}

void zero_skipped(const Tensor& rows, const Tensor& offsets) {
  const int64_t experts = offsets.numel() - 1;
  fill(rows.slice_rows(offsets.data<int32_t>()[experts], rows.rows()), 0);
}

// The products of all experts, their tiles shared out together.
template <class In, class Out, class W = In, class F>
void for_all_experts(const Tensor& offsets, F&& product_of) {
  std::vector<cpu::Gemm<In, Out, W>> products;
  for (int64_t e = 0; e + 1 < offsets.numel(); ++e) {
    products.push_back(product_of(e, rows_of(offsets, e)));
  }
  cpu::gemm(std::span<const cpu::Gemm<In, Out, W>>(products));
}

// y = x W^T
template <class T, class W>
void forward(const GroupedLinear& k) {
  const int64_t out = k.weight.dim(1);
  for_all_experts<T, T, W>(k.offsets, [&](int64_t e, Rows rows) -> cpu::Gemm<T, T, W> {
    return {.m = rows.count,
            .n = out,
            .k = k.x.cols(),
            .a = k.x.row<T>(rows.begin),
            .lda = k.x.row_stride(),
            .transpose_a = false,
            .b = k.weight.row<W>(e * out),
            .ldb = k.weight.row_stride(),
            .transpose_b = true,
            .c = k.y.row<T>(rows.begin),
            .ldc = k.y.row_stride(),
            .rows = cpu::row_class(k.x.rows())};
  });
}

// dx = dy W
template <class T>
void input_gradient(const GroupedLinearGrad& k) {
  const int64_t out = k.weight.dim(1);
  for_all_experts<T, T>(k.offsets, [&](int64_t e, Rows rows) -> cpu::Gemm<T, T> {
    return {.m = rows.count,
            .n = k.x.cols(),
            .k = out,
            .a = k.dy.row<T>(rows.begin),
            .lda = k.dy.row_stride(),
            .transpose_a = false,
            .b = k.weight.row<T>(e * out),
            .ldb = k.weight.row_stride(),
            .transpose_b = false,
            .c = k.dx.row<T>(rows.begin),
            .ldc = k.dx.row_stride(),
            .accumulate = k.accumulate_dx};
  });
}

// dW = dy^T x; an expert without rows is a product with K = 0.
template <class T>
void weight_gradient(const GroupedLinearGrad& k) {
  using Acc = acc_t<T>;
  const int64_t out = k.weight.dim(1);
  for_all_experts<T, Acc>(k.offsets, [&](int64_t e, Rows rows) -> cpu::Gemm<T, Acc> {
    return {.m = out,
            .n = k.x.cols(),
            .k = rows.count,
            .a = k.dy.row<T>(rows.begin),
            .lda = k.dy.row_stride(),
            .transpose_a = true,
            .b = k.x.row<T>(rows.begin),
            .ldb = k.x.row_stride(),
            .transpose_b = false,
            .c = k.dweight.row<Acc>(e * out),
            .ldc = k.dweight.row_stride(),
            .accumulate = k.accumulate_dweight};
  });
}

}  // namespace

void GroupedLinear::on_cpu() const {
  if (weight.dtype() != x.dtype()) {
    forward<float, bf16>(*this);
  } else {
    visit_float(x.dtype(), [&]<class T>() { forward<T, T>(*this); });
  }
  zero_skipped(y, offsets);
}

void PackedGroupedLinear::on_cpu() const {
  std::vector<cpu::PackedProduct> products;
  for (int64_t e = 0; e + 1 < offsets.numel(); ++e) {
    const Rows rows = rows_of(offsets, e);
    if (rows.count == 0) continue;
    products.push_back({.weight = weight.packed().matrix(e),
                        .first = rows.begin,
                        .count = rows.count,
                        .y = y.data<float>(),
                        .ldy = y.row_stride()});
  }
  cpu::packed_gemm(x.data<float>(), x.rows(), x.cols(), x.row_stride(), products);
  zero_skipped(y, offsets);
}

void GroupedLinearGrad::on_cpu() const {
  visit_float(x.dtype(), [&]<class T>() {
    if (dx) input_gradient<T>(*this);
    if (dweight) weight_gradient<T>(*this);
  });
  if (dx && !accumulate_dx) zero_skipped(dx, offsets);
}

}  // namespace tephra::kernel
