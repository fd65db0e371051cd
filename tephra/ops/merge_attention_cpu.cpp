// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/merge_attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/merge_attention_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {
namespace {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kRows = 16;  // per piece of work

template <class Acc>
struct Weights {
  Acc a, b, lse;
};

// Both are 0 when neither part saw a key.
template <class Acc>
Weights<Acc> weights(Acc a, Acc b) {
  const Acc top = a < b ? b : a;
  if (top == -std::numeric_limits<Acc>::infinity()) return {0, 0, top};
  const Acc ea = std::exp(a - top), eb = std::exp(b - top);
  return {ea / (ea + eb), eb / (ea + eb), top + std::log(ea + eb)};
}

void forward(const MergeAttention& k) {
  visit_float(k.o.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t heads = k.lse.cols(), dim = k.o.cols() / heads;
    parallel_for(k.o.rows(), kRows, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin * heads; i < end * heads; ++i) {
        const int64_t r = i / heads, h = i % heads;
        const auto w = weights<Acc>(k.a.lse.row<Acc>(r)[h], k.b.lse.row<Acc>(r)[h]);
        const T* oa = k.a.o.row<T>(r) + h * dim;
        const T* ob = k.b.o.row<T>(r) + h * dim;
        T* o = k.o.row<T>(r) + h * dim;
        for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
          const auto b = hn::Mul(load_up_to(ob + c, n), set<T>(w.b));
          store_up_to(o + c, hn::MulAdd(load_up_to(oa + c, n), set<T>(w.a), b), n);
        });
        k.lse.row<Acc>(r)[h] = w.lse;
      }
    });
  });
}

// target = w * d_o, or target += w * d_o, for one head; 0 for a part that saw no key.
template <class T>
void write_scaled(const GradTarget& target, int64_t row, int64_t column, int64_t dim,
                  const Tensor& d_o, acc_t<T> w) {
  if (!target.grad) return;
  T* to = target.grad.row<T>(row) + column;
  for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
    auto v = set<T>(0);
    if (d_o) v = hn::Mul(load_up_to(d_o.row<T>(row) + column + c, n), set<T>(w));
    write_up_to(to + c, v, n, target.accumulate);
  });
}

template <class Acc>
void write(const GradTarget& target, int64_t row, int64_t column, Acc value) {
  if (!target.grad) return;
  Acc& to = target.grad.row<Acc>(row)[column];
  to = target.accumulate ? to + value : value;
}

// sum(do * (oa - ob)) of one head.
template <class T>
acc_t<T> difference(const MergeAttentionGrad& k, int64_t row, int64_t column, int64_t dim) {
  auto sum = set<T>(0);
  for_each_vector<T>(k.d_o ? dim : 0, [&](int64_t c, int64_t n) HWY_ATTR {
    const int64_t at = column + c;
    const auto oa = load_up_to(k.a.o.row<T>(row) + at, n);
    const auto ob = load_up_to(k.b.o.row<T>(row) + at, n);
    sum = hn::MulAdd(load_up_to(k.d_o.row<T>(row) + at, n), hn::Sub(oa, ob), sum);
  });
  return sum_of_lanes<T>(sum);
}

void backward(const MergeAttentionGrad& k) {
  visit_float(k.a.o.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t heads = k.a.lse.cols(), dim = k.a.o.cols() / heads;
    parallel_for(k.a.o.rows(), kRows, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t i = begin * heads; i < end * heads; ++i) {
        const int64_t r = i / heads, h = i % heads;
        const auto w = weights<Acc>(k.a.lse.row<Acc>(r)[h], k.b.lse.row<Acc>(r)[h]);
        write_scaled<T>(k.doa, r, h * dim, dim, k.d_o, w.a);
        write_scaled<T>(k.dob, r, h * dim, dim, k.d_o, w.b);
        const Acc dlse = k.dlse ? k.dlse.row<Acc>(r)[h] : Acc(0);
        const Acc exchange = w.a * w.b * difference<T>(k, r, h * dim, dim);
        // A weight of 0 stays 0 even when the gradient of an infinite lse is infinite.
        write<Acc>(k.dlse_a, r, h, w.a == 0 ? Acc(0) : w.a * dlse + exchange);
        write<Acc>(k.dlse_b, r, h, w.b == 0 ? Acc(0) : w.b * dlse - exchange);
      }
    });
  });
}

}  // namespace
}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void MergeAttention::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void MergeAttentionGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
