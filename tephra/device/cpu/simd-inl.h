// SPDX-License-Identifier: Apache-2.0
// What our CPU kernels add to Highway: loads and stores that widen bf16 to float and cope with the
// last few elements of a row. Included once per instruction set (see docs/adding-an-op.md), hence
// no ordinary include guard.
#if defined(TEPHRA_DEVICE_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TEPHRA_DEVICE_CPU_SIMD_INL_H_
#undef TEPHRA_DEVICE_CPU_SIMD_INL_H_
#else
#define TEPHRA_DEVICE_CPU_SIMD_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "tephra/base/number.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::simd::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Lanes of the type that T computes in: double for double, float for float and bf16.
template <class T>
using Tag = hn::ScalableTag<acc_t<T>>;

template <class T>
using Vec = hn::Vec<Tag<T>>;

template <class T>
HWY_INLINE int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(Tag<T>()));
}

HWY_INLINE Vec<double> load(const double* p) { return hn::LoadU(Tag<double>(), p); }
HWY_INLINE Vec<float> load(const float* p) { return hn::LoadU(Tag<float>(), p); }
HWY_INLINE Vec<float> load(const bf16* p) {
  const Tag<float> d;
  const hn::Rebind<uint32_t, Tag<float>> d32;
  const hn::Rebind<uint16_t, Tag<float>> d16;
  const auto bits = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, bits)));
}

HWY_INLINE void store(double* p, Vec<double> v) { hn::StoreU(v, Tag<double>(), p); }
HWY_INLINE void store(float* p, Vec<float> v) { hn::StoreU(v, Tag<float>(), p); }
// Rounds to nearest, ties to even, as bf16's constructor does; NaN stays NaN.
HWY_INLINE void store(bf16* p, Vec<float> v) {
  const hn::Rebind<uint32_t, Tag<float>> d32;
  const hn::Rebind<uint16_t, Tag<float>> d16;
  const auto u = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(u), hn::Set(d32, 1u));
  auto rounded = hn::ShiftRight<16>(hn::Add(u, hn::Add(odd, hn::Set(d32, 0x7fffu))));
  const auto nan = hn::Or(hn::ShiftRight<16>(u), hn::Set(d32, 0x40u));
  rounded = hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), nan, rounded);
  const hn::Rebind<int32_t, Tag<float>> di;
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, rounded)), d16, reinterpret_cast<uint16_t*>(p));
}

// The first n < lanes elements; the rest of the vector is zero.
template <class T>
HWY_INLINE Vec<T> load_n(const T* p, int64_t n) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(acc_t<T>)];
  std::memset(static_cast<void*>(buffer), 0, sizeof buffer);
  std::memcpy(static_cast<void*>(buffer), p, static_cast<size_t>(n) * sizeof(T));
  return load(buffer);
}

template <class T>
HWY_INLINE void store_n(T* p, Vec<T> v, int64_t n) {
  HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(acc_t<T>)];
  store(buffer, v);
  std::memcpy(static_cast<void*>(p), buffer, static_cast<size_t>(n) * sizeof(T));
}

// Calls f(c, n) for [0, count) in steps of a vector; n is the vector's width except at the end.
// Inside, `load_up_to(p + c, n)` and `store_up_to` do the right thing for both.
template <class T, class F>
HWY_INLINE void for_each_vector(int64_t count, F&& f) {
  const int64_t width = lanes<T>();
  int64_t c = 0;
  for (; c + width <= count; c += width) f(c, width);
  if (c < count) f(c, count - c);
}

template <class T>
HWY_INLINE Vec<T> load_up_to(const T* p, int64_t n) {
  return n == lanes<T>() ? load(p) : load_n(p, n);
}

template <class T>
HWY_INLINE void store_up_to(T* p, Vec<T> v, int64_t n) {
  if (n == lanes<T>()) {
    store(p, v);
  } else {
    store_n(p, v, n);
  }
}

// Overwrites, or adds to what is there: how every gradient is written (autograd/variable.h).
template <class T>
HWY_INLINE void write_up_to(T* p, Vec<T> v, int64_t n, bool accumulate) {
  store_up_to(p, accumulate ? hn::Add(load_up_to(p, n), v) : v, n);
}

// What is longer than this will not be found in a cache by whoever reads it next.
constexpr int64_t kBeyondCacheBytes = int64_t{32} << 20;

// Stores past the caches, so that the lines need not be read before they are overwritten; where
// that cannot be done, as any other store. A task that used it ends with hwy::FlushStream().
template <class T>
HWY_INLINE void stream_up_to(T* p, Vec<T> v, int64_t n) {
  if constexpr (std::is_same_v<T, acc_t<T>>) {
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    if (n == lanes<T>() && reinterpret_cast<uintptr_t>(p) % bytes == 0) {
      hn::Stream(v, Tag<T>(), p);
      return;
    }
  }
  store_up_to(p, v, n);
}

template <class T>
HWY_INLINE Vec<T> set(acc_t<T> value) {
  return hn::Set(Tag<T>(), value);
}

template <class T>
HWY_INLINE acc_t<T> sum_of_lanes(Vec<T> v) {
  return hn::GetLane(hn::SumOfLanes(Tag<T>(), v));
}

template <class T>
HWY_INLINE acc_t<T> max_of_lanes(Vec<T> v) {
  return hn::GetLane(hn::MaxOfLanes(Tag<T>(), v));
}

}  // namespace tephra::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
