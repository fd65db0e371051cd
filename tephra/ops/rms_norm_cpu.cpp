// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rms_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/rms_norm_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kRows = 32;  // per piece of work

void forward(const RmsNorm& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t width = k.x.cols();
    const T* w = k.weight.data<T>();
    parallel_for(k.x.rows(), kRows, [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = k.x.row<T>(r);
        const T* next = k.x.row<T>(std::min(r + 1, end - 1));
        T* y = k.y.row<T>(r);
        Vec<T> squares = set<T>(0);
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          const auto v = load_up_to(x + c, n);
          __builtin_prefetch(y + c, 1);  // each pass asks for what the next one needs
          squares = hn::MulAdd(v, v, squares);
        });
        const Acc mean = sum_of_lanes<T>(squares) / static_cast<Acc>(width);
        const Acc rstd = Acc(1) / std::sqrt(mean + static_cast<Acc>(k.eps));
        k.rstd.data<Acc>()[r] = rstd;
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          __builtin_prefetch(next + c);
          const auto normed = hn::Mul(load_up_to(x + c, n), set<T>(rstd));
          store_up_to(y + c, hn::Mul(normed, load_up_to(w + c, n)), n);
        });
      }
    });
  });
}

// With s = rstd and m = mean(dy * w * x): dx = s * (w * dy - x * s^2 * m).
template <class T>
HWY_INLINE acc_t<T> shrink_of(const RmsNormGrad& k, int64_t r) {
  const int64_t width = k.x.cols();
  const T *w = k.weight.data<T>(), *x = k.x.row<T>(r), *dy = k.dy.row<T>(r);
  Vec<T> dots = set<T>(0);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    const auto t = hn::Mul(load_up_to(dy + c, n), load_up_to(w + c, n));
    dots = hn::MulAdd(t, load_up_to(x + c, n), dots);
  });
  const acc_t<T> s = k.rstd.data<acc_t<T>>()[r];
  return s * s * (sum_of_lanes<T>(dots) / static_cast<acc_t<T>>(width));
}

// Writes dx of a row; adds dy * x * s to `sums` unless null. Both while the row is in the cache.
template <class T, bool kPastCache>
void backward_row(const RmsNormGrad& k, int64_t r, acc_t<T>* sums) {
  const T *w = k.weight.data<T>(), *x = k.x.row<T>(r), *dy = k.dy.row<T>(r);
  T* dx = k.dx ? k.dx.row<T>(r) : nullptr;
  const int64_t next = std::min(r + 1, k.x.rows() - 1);
  const T *next_x = k.x.row<T>(next), *next_dy = k.dy.row<T>(next);
  const auto s = set<T>(k.rstd.data<acc_t<T>>()[r]);
  const auto shrink = set<T>(dx ? shrink_of<T>(k, r) : 0);
  for_each_vector<T>(k.x.cols(), [&](int64_t c, int64_t n) HWY_ATTR {
    __builtin_prefetch(next_x + c);
    __builtin_prefetch(next_dy + c);
    const auto xv = load_up_to(x + c, n), g = load_up_to(dy + c, n);
    if (dx) {
      const auto v = hn::Mul(hn::NegMulAdd(xv, shrink, hn::Mul(g, load_up_to(w + c, n))), s);
      if (kPastCache) {
        stream_up_to(dx + c, v, n);
      } else {
        write_up_to(dx + c, v, n, k.accumulate_dx);
      }
    }
    if (sums) write_up_to(sums + c, hn::Mul(hn::Mul(xv, s), g), n, true);
  });
}

template <class T>
void backward_rows(const RmsNormGrad& k, int64_t begin, int64_t end, acc_t<T>* sums) {
  if (k.dx && !k.accumulate_dx && k.dx.bytes() > kBeyondCacheBytes) {
    for (int64_t r = begin; r < end; ++r) backward_row<T, true>(k, r, sums);
    hwy::FlushStream();
  } else {
    for (int64_t r = begin; r < end; ++r) backward_row<T, false>(k, r, sums);
  }
}

template <class T>
void backward_as(const RmsNormGrad& k) {
  using Acc = acc_t<T>;
  if (k.dweight) {
    cpu::sum_rows<Acc>(k.x.rows(), k.x.cols(), k.dweight.data<Acc>(), k.accumulate_dweight,
                       [&](int64_t begin, int64_t end, Acc* sums)
                           HWY_ATTR { backward_rows<T>(k, begin, end, sums); });
  } else if (k.dx) {
    parallel_for(k.x.rows(), kRows, [&](int64_t begin, int64_t end) HWY_ATTR {
      backward_rows<T>(k, begin, end, nullptr);
    });
  }
}

void backward(const RmsNormGrad& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR { backward_as<T>(k); });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void RmsNorm::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void RmsNormGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
