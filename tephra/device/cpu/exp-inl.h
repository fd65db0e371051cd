// SPDX-License-Identifier: Apache-2.0
// A short exp for kernels whose speed it decides. Included once per instruction set, like
// simd-inl.h.
#if defined(TEPHRA_DEVICE_CPU_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TEPHRA_DEVICE_CPU_EXP_INL_H_
#undef TEPHRA_DEVICE_CPU_EXP_INL_H_
#else
#define TEPHRA_DEVICE_CPU_EXP_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>

#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::simd::HWY_NAMESPACE {

// exp of x moved into [-87, 88], where it and its reciprocal are normal numbers: relative error
// 1e-7. NaN gives some number.
//
// x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) = 1 + r + r^2 Q(r), Q interpolating at Chebyshev
// nodes. Adding 1.5 * 2^23 rounds to the integer n and leaves it in the low bits, ready for the
// exponent.
HWY_INLINE Vec<float> bounded_exp(Vec<float> x) {
  const hn::Rebind<int32_t, Tag<float>> di;
  const auto magic = set<float>(12582912.0F);
  x = hn::Min(hn::Max(x, set<float>(-87.0F)), set<float>(88.0F));
  const auto shifted = hn::MulAdd(x, set<float>(1.44269504F), magic);
  const auto n = hn::Sub(shifted, magic);
  auto r = hn::NegMulAdd(n, set<float>(0.693359375F), x);  // ln 2 in two parts
  r = hn::NegMulAdd(n, set<float>(-2.12194440e-4F), r);
  auto q = set<float>(0.00139261818F);
  q = hn::MulAdd(q, r, set<float>(0.00836317763F));
  q = hn::MulAdd(q, r, set<float>(0.0416665546F));
  q = hn::MulAdd(q, r, set<float>(0.166665770F));
  q = hn::MulAdd(q, r, set<float>(0.5F));
  const auto e = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), set<float>(1.0F));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
  return hn::BitCast(Tag<float>(), hn::Add(hn::BitCast(di, e), exponent));
}

HWY_INLINE Vec<double> bounded_exp(Vec<double> x) {
  return hn::Exp(Tag<double>(), hn::Min(hn::Max(x, set<double>(-87.0)), set<double>(88.0)));
}

}  // namespace tephra::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
