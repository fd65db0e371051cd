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

// Rows [begin, end). `sign` is that of the angle.
template <class T>
void rotate_rows(const Rope& k, const cpu::RotaryTable<acc_t<T>>& table, acc_t<T> sign,
                 int64_t begin, int64_t end) {
  using Acc = acc_t<T>;
  const int64_t half = k.rotary_dim / 2, rest = k.head_dim - k.rotary_dim;
  const bool add = k.y.accumulate;
  std::vector<Acc> scratch(static_cast<size_t>(k.rotary_dim));
  for (int64_t r = begin; r < end; ++r) {
    const Acc* cosines = table.row(k.position_N.data<int32_t>()[r], scratch.data());
    const Acc* sines = cosines + half;
    const T* x_row = k.x.row<T>(r);
    T* y_row = k.y.grad.row<T>(r);
    for (int64_t at = 0; at < k.x.cols(); at += k.head_dim) {
      const T* x = x_row + at;
      T* y = y_row + at;
      for_each_vector<T>(half, [&](int64_t i, int64_t n) HWY_ATTR {
        const auto cos = load_up_to(cosines + i, n);
        const auto sin = hn::Mul(load_up_to(sines + i, n), set<T>(sign));
        const auto a = load_up_to(x + i, n), b = load_up_to(x + half + i, n);
        write_up_to(y + i, hn::NegMulAdd(b, sin, hn::Mul(a, cos)), n, add);
        write_up_to(y + half + i, hn::MulAdd(a, sin, hn::Mul(b, cos)), n, add);
      });
      const T* passed = x + k.rotary_dim;
      T* out = y + k.rotary_dim;
      for_each_vector<T>(rest, [&](int64_t i, int64_t n) HWY_ATTR {
        write_up_to(out + i, load_up_to(passed + i, n), n, add);
      });
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
    const auto table = cpu::RotaryTable<Acc>::covering(count, k.rotary_dim, k.theta);
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
