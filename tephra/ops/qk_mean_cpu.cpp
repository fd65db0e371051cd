// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/qk_mean.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/qk_mean_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// Calls f(r, q, k, group) for each row and key head: offsets in the row of the group's first query
// head and of its key head.
template <class F>
HWY_INLINE void for_each_group(int64_t rows, int64_t cols, int64_t nq, int64_t nk, F f) {
  const int64_t dim = cols / (nq + nk), group = nq / nk;
  parallel_for(rows, row_grain(cols), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t j = 0; j < nk; ++j) f(r, j * group * dim, (nq + j) * dim);
    }
  });
}

void forward(const QkMean& k) {
  visit_float(k.z.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t dim = k.z.cols() / (k.nq + k.nk), group = k.nq / k.nk;
    const auto half = set<T>(Acc(0.5)), share = set<T>(Acc(0.5) / static_cast<Acc>(group));
    for_each_group(k.z.rows(), k.z.cols(), k.nq, k.nk,
                   [&](int64_t r, int64_t q, int64_t key) HWY_ATTR {
                     const T *z = k.z.row<T>(r), *y = k.y.row<T>(r);
                     T* out = k.out.row<T>(r);
                     for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
                       const auto z_key = load_up_to(z + key + c, n);
                       auto queries = set<T>(0);
                       for (int64_t h = 0; h < group; ++h) {
                         const int64_t at = q + h * dim + c;
                         const auto z_query = load_up_to(z + at, n);
                         queries = hn::Add(queries, z_query);
                         const auto mean = hn::Add(z_query, z_key);
                         store_up_to(out + at, hn::MulAdd(mean, half, load_up_to(y + at, n)), n);
                       }
                       const auto own = hn::MulAdd(z_key, half, load_up_to(y + key + c, n));
                       store_up_to(out + key + c, hn::MulAdd(queries, share, own), n);
                     });
                   });
  });
}

// dz_q,h = dq_h / 2 + dk_j / (2 group), dz_k,j = (sum over h of dq_h + dk_j) / 2.
void backward(const QkMeanGrad& k) {
  visit_float(k.dout.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t dim = k.dout.cols() / (k.nq + k.nk), group = k.nq / k.nk;
    const auto half = set<T>(Acc(0.5)), share = set<T>(Acc(0.5) / static_cast<Acc>(group));
    for_each_group(k.dout.rows(), k.dout.cols(), k.nq, k.nk,
                   [&](int64_t r, int64_t q, int64_t key) HWY_ATTR {
                     const T* dout = k.dout.row<T>(r);
                     T* dz = k.dz.grad.row<T>(r);
                     for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
                       const auto dkey = load_up_to(dout + key + c, n);
                       const auto dshare = hn::Mul(dkey, share);
                       auto sum = dkey;
                       for (int64_t h = 0; h < group; ++h) {
                         const int64_t at = q + h * dim + c;
                         const auto dquery = load_up_to(dout + at, n);
                         sum = hn::Add(sum, dquery);
                         write_up_to(dz + at, hn::MulAdd(dquery, half, dshare), n, k.dz.accumulate);
                       }
                       write_up_to(dz + key + c, hn::Mul(sum, half), n, k.dz.accumulate);
                     });
                   });
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void QkMean::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void QkMeanGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
