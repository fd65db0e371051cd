// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/swiglu_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/exp-inl.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// 1 / (1 + exp(-v)), and 0 below -87, where exp is bounded. NaN gives a number, but both callers
// multiply by v.
template <class T>
HWY_INLINE Vec<T> sigmoid(Vec<T> v) {
  const auto s = hn::Div(set<T>(1), hn::Add(bounded_exp(hn::Neg(v)), set<T>(1)));
  return hn::IfThenZeroElse(hn::Lt(v, set<T>(-87)), s);
}

void forward(const Swiglu& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    const int64_t width = k.y.cols();
    parallel_for(k.x.rows(), row_grain(2 * width), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const T* gate = k.x.row<T>(r);
        const T* up = gate + width;
        T* y = k.y.row<T>(r);
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          const auto g = load_up_to(gate + c, n);
          const auto silu = hn::Mul(g, sigmoid<T>(g));
          store_up_to(y + c, hn::Mul(silu, load_up_to(up + c, n)), n);
        });
      }
    });
  });
}

// With s = sigmoid(gate): dgate = dy * up * s * (1 + gate * (1 - s)), dup = dy * gate * s.
void backward(const SwigluGrad& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    const int64_t width = k.dy.cols();
    const bool add = k.dx.accumulate;
    parallel_for(k.x.rows(), row_grain(2 * width), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const T* gate = k.x.row<T>(r);
        const T* up = gate + width;
        const T* dy = k.dy.row<T>(r);
        T* dgate = k.dx.grad.row<T>(r);
        T* dup = dgate + width;
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          const auto g = load_up_to(gate + c, n);
          const auto d = load_up_to(dy + c, n);
          const auto s = sigmoid<T>(g);
          const auto ds = hn::Mul(d, s);
          const auto slope = hn::MulAdd(g, hn::Sub(set<T>(1), s), set<T>(1));
          write_up_to(dgate + c, hn::Mul(hn::Mul(ds, slope), load_up_to(up + c, n)), n, add);
          write_up_to(dup + c, hn::Mul(ds, g), n, add);
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
HWY_EXPORT(forward);
HWY_EXPORT(backward);
}  // namespace

void Swiglu::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void SwigluGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
