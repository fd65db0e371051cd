// SPDX-License-Identifier: Apache-2.0
// One small product per head. Those with W^T have kernels for few and for many rows in cpu::gemm;
// those with W get one for few rows here, so that a row's bits depend on no other row.
#include "tephra/ops/latent_decode.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/latent_decode_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/gemm.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// y_h = sum over i of q_h[i] * K_h[i], in the order of i.
void absorb_few(const AbsorbQueries& k) {
  const int64_t latent = k.expand.cols(), rows = k.expand.rows() / k.heads;
  const int64_t from = k.q.cols() / k.heads, to = k.y.cols() / k.heads;
  visit_float(k.q.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    parallel_for(k.heads, 1, [&](int64_t h, int64_t) HWY_ATTR {
      for (int64_t r = 0; r < k.q.rows(); ++r) {
        const T* q = k.q.row<T>(r) + h * from;
        T* y = k.y.row<T>(r) + h * to;
        for_each_vector<T>(latent, [&](int64_t c, int64_t n) HWY_ATTR {
          auto sum = set<T>(0);
          for (int64_t i = 0; i < k.own_dim; ++i) {
            const T* w = k.expand.row<T>(h * rows + i) + c;
            sum = hn::MulAdd(set<T>(static_cast<Acc>(q[i])), load_up_to(w, n), sum);
          }
          store_up_to(y + c, sum, n);
        });
      }
    });
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {

HWY_EXPORT(absorb_few);

template <class T>
void absorb_many(const AbsorbQueries& k) {
  const int64_t rows = k.expand.rows() / k.heads;
  std::vector<cpu::Gemm<T, T>> products;
  for (int64_t h = 0; h < k.heads; ++h) {
    products.push_back({.m = k.q.rows(),
                        .n = k.expand.cols(),
                        .k = k.own_dim,
                        .a = k.q.data<T>() + h * (k.q.cols() / k.heads),
                        .lda = k.q.row_stride(),
                        .transpose_a = false,
                        .b = k.expand.row<T>(h * rows),
                        .ldb = k.expand.row_stride(),
                        .transpose_b = false,
                        .c = k.y.data<T>() + h * (k.y.cols() / k.heads),
                        .ldc = k.y.row_stride()});
  }
  cpu::gemm(std::span<const cpu::Gemm<T, T>>(products));
}

template <class T>
void copy_rest(const AbsorbQueries& k) {
  const int64_t from = k.q.cols() / k.heads, to = k.y.cols() / k.heads;
  parallel_for(k.q.rows(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t h = 0; h < k.heads; ++h) {
        std::copy_n(k.q.row<T>(r) + h * from + k.own_dim, from - k.own_dim,
                    k.y.row<T>(r) + h * to + k.expand.cols());
      }
    }
  });
}

}  // namespace

void AbsorbQueries::on_cpu() const {
  visit_float(q.dtype(), [&]<class T>() {
    if (cpu::row_class(q.rows()) == cpu::RowClass::few) {
      HWY_DYNAMIC_DISPATCH(absorb_few)(*this);
    } else {
      absorb_many<T>(*this);
    }
    copy_rest<T>(*this);
  });
}

void ExpandValues::on_cpu() const {
  if (o.rows() == 0) return;
  const int64_t rows = expand.rows() / heads, value_dim = rows - own_dim, latent = expand.cols();
  visit_float(o.dtype(), [&]<class T>() {
    std::vector<cpu::Gemm<T, T>> products;
    for (int64_t h = 0; h < heads; ++h) {
      products.push_back({.m = o.rows(),
                          .n = value_dim,
                          .k = latent,
                          .a = o.data<T>() + h * latent,
                          .lda = o.row_stride(),
                          .transpose_a = false,
                          .b = expand.row<T>(h * rows + own_dim),
                          .ldb = expand.row_stride(),
                          .transpose_b = true,
                          .c = y.data<T>() + h * value_dim,
                          .ldc = y.row_stride()});
    }
    cpu::gemm(std::span<const cpu::Gemm<T, T>>(products));
  });
}

}  // namespace tephra::kernel
#endif
