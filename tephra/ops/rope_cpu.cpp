// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rope.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/rope_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"
#include "tephra/ops/rotary_table.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// Pairs (i, i + half).
template <class T>
HWY_INLINE void turn_halves(const T* x, T* y, const acc_t<T>* cosines, int64_t half, acc_t<T> sign,
                            bool add) {
  const acc_t<T>* sines = cosines + half;
  for_each_vector<T>(half, [&](int64_t i, int64_t n) HWY_ATTR {
    const auto cos = load_up_to(cosines + i, n);
    const auto sin = hn::Mul(load_up_to(sines + i, n), set<T>(sign));
    const auto a = load_up_to(x + i, n), b = load_up_to(x + half + i, n);
    write_up_to(y + i, hn::NegMulAdd(b, sin, hn::Mul(a, cos)), n, add);
    write_up_to(y + half + i, hn::MulAdd(a, sin, hn::Mul(b, cos)), n, add);
  });
}

// What each element of neighbouring pairs is multiplied by, and what the other one of its pair.
template <class Acc>
void spread(const Acc* cosines, int64_t half, Acc sign, Acc* own, Acc* other) {
  for (int64_t i = 0; i < half; ++i) {
    own[2 * i] = own[2 * i + 1] = cosines[i];
    other[2 * i] = -sign * cosines[half + i];
    other[2 * i + 1] = sign * cosines[half + i];
  }
}

// Pairs (2i, 2i + 1).
template <class T>
HWY_INLINE void turn_neighbours(const T* x, T* y, const acc_t<T>* own, const acc_t<T>* other,
                                int64_t count, bool add) {
  for_each_vector<T>(count, [&](int64_t i, int64_t n) HWY_ATTR {
    const auto v = load_up_to(x + i, n);
    const auto swapped = hn::Reverse2(Tag<T>(), v);
    const auto kept = hn::Mul(v, load_up_to(own + i, n));
    write_up_to(y + i, hn::MulAdd(swapped, load_up_to(other + i, n), kept), n, add);
  });
}

// Rows [begin, end). `sign` is that of the angle.
template <class T>
void rotate_rows(const Rope& k, const cpu::RotaryTable<acc_t<T>>& table, acc_t<T> sign,
                 int64_t begin, int64_t end) {
  using Acc = acc_t<T>;
  const RopeForm& form = k.form;
  const int64_t half = form.rotary_dim / 2, after = form.first + form.rotary_dim;
  const bool add = k.y.accumulate;
  const auto pass = [&](const T* x, T* y, int64_t count) HWY_ATTR {
    for_each_vector<T>(count, [&](int64_t i, int64_t n)
                                  HWY_ATTR { write_up_to(y + i, load_up_to(x + i, n), n, add); });
  };
  std::vector<Acc> scratch(static_cast<size_t>(3 * form.rotary_dim));
  Acc *own = scratch.data() + form.rotary_dim, *other = own + form.rotary_dim;
  for (int64_t r = begin; r < end; ++r) {
    const Acc* cosines = table.row(k.position_N.data<int32_t>()[r], scratch.data());
    if (form.interleaved) spread(cosines, half, sign, own, other);
    for (int64_t at = 0; at < k.x.cols(); at += form.head_dim) {
      const T* x = k.x.row<T>(r) + at;
      T* y = k.y.grad.row<T>(r) + at;
      pass(x, y, form.first);
      if (form.interleaved) {
        turn_neighbours<T>(x + form.first, y + form.first, own, other, form.rotary_dim, add);
      } else {
        turn_halves<T>(x + form.first, y + form.first, cosines, half, sign, add);
      }
      pass(x + after, y + after, form.head_dim - after);
    }
  }
}

void rotate(const Rope& k) {
  const int64_t rows = k.x.rows();
  if (rows == 0) return;
  const int32_t* positions = k.position_N.data<int32_t>();
  const auto [lowest, highest] = std::minmax_element(positions, positions + rows);
  require(*lowest >= 0, "rope: a position cannot be negative, got {}", *lowest);
  const int64_t count = int64_t{*highest} + 1;
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const auto table = cpu::RotaryTable<Acc>::covering(count, k.form.rotary_dim, k.form.theta);
    const Acc sign = k.inverse ? Acc(-1) : Acc(1);
    parallel_for(rows, row_grain(k.x.cols()), [&](int64_t begin, int64_t end) HWY_ATTR {
      rotate_rows<T>(k, *table, sign, begin, end);
    });
  });
}

}  // namespace tephra::kernel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::kernel {
namespace {
HWY_EXPORT(rotate);
}  // namespace

void Rope::on_cpu() const { HWY_DYNAMIC_DISPATCH(rotate)(*this); }

}  // namespace tephra::kernel
#endif
