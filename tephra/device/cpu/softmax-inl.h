// SPDX-License-Identifier: Apache-2.0
// exp and the sums of a softmax over one row, for CPU kernels. Included once per instruction set,
// like simd-inl.h.
#if defined(TEPHRA_DEVICE_CPU_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TEPHRA_DEVICE_CPU_SOFTMAX_INL_H_
#undef TEPHRA_DEVICE_CPU_SOFTMAX_INL_H_
#else
#define TEPHRA_DEVICE_CPU_SOFTMAX_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include <limits>

#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::simd::HWY_NAMESPACE {

// Highway's Exp turns NaN into 0, which would hide a diverged model.
template <class T>
HWY_INLINE Vec<T> exp_keeping_nan(Vec<T> x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(Tag<T>(), x));
}

// As load_up_to, with -inf in the lanes past n: neutral for max and exp.
template <class T>
HWY_INLINE Vec<T> load_or_lowest(const T* p, int64_t n) {
  if (n == lanes<T>()) return load(p);
  const auto lowest = set<T>(-std::numeric_limits<acc_t<T>>::infinity());
  return hn::IfThenElse(hn::FirstN(Tag<T>(), static_cast<size_t>(n)), load_n(p, n), lowest);
}

// The largest element; which of the others wins over a NaN is not said.
template <class T>
HWY_INLINE acc_t<T> largest_of(const T* x, int64_t width) {
  auto largest = set<T>(-std::numeric_limits<acc_t<T>>::infinity());
  for_each_vector<T>(width, [&](int64_t c, int64_t n)
                                HWY_ATTR { largest = hn::Max(largest, load_or_lowest(x + c, n)); });
  return max_of_lanes<T>(largest);
}

// sum exp(x - shift), each term also stored in `terms` unless it is null. NaN anywhere gives NaN.
template <class T>
HWY_INLINE acc_t<T> sum_of_exps(const T* x, int64_t width, acc_t<T> shift, acc_t<T>* terms) {
  auto sum = set<T>(0);
  for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
    const auto e = exp_keeping_nan<T>(hn::Sub(load_or_lowest(x + c, n), set<T>(shift)));
    sum = hn::Add(sum, e);
    if (terms) store_up_to(terms + c, e, n);
  });
  return sum_of_lanes<T>(sum);
}

}  // namespace tephra::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
