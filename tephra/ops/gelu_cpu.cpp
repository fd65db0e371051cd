// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/gelu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/gelu_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include <cmath>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// The normal law at x: distribution function and exp(-x^2 / 2).
template <class T>
struct NormalLaw {
  Vec<T> distribution, bell;
};

// exp(z^2) * erfc(z) for z = |x| / sqrt(2) is smooth in t = 1 / (1 + z / 2): this polynomial in
// t - 1/2 interpolates it at the Chebyshev nodes of z in [0, 7], with a relative error of 5e-9.
// Phi is then bell * P / 2 on the left and one minus that on the right: no cancellation in either
// tail. Error of x * Phi(x): 1.1e-7 beyond the rounding of the result.
HWY_INLINE NormalLaw<float> normal_law(Vec<float> x) {
  constexpr float kCoefficients[] = {0.0406821307007F, -0.0825273087771F, 0.00786629116859F,
                                     0.125643659726F,  -0.0540030510278F, -0.223936930319F,
                                     0.0597213708116F, 0.631829255311F,   0.966632806027F,
                                     0.854371690522F,  0.255395676317F};
  const Tag<float> d;
  const auto one = set<float>(1), half = set<float>(0.5F);
  const auto bell = hn::Exp(d, hn::Mul(hn::Mul(x, x), set<float>(-0.5F)));
  const auto t = hn::Div(one, hn::MulAdd(hn::Abs(x), set<float>(0.35355339F), one));
  const auto u = hn::Sub(t, half);
  auto p = set<float>(kCoefficients[0]);
  for (size_t i = 1; i < 11; ++i) p = hn::MulAdd(p, u, set<float>(kCoefficients[i]));
  const auto left = hn::Mul(hn::Mul(half, p), bell);
  return {hn::IfThenElse(hn::Gt(x, set<float>(0)), hn::Sub(one, left), left), bell};
}

// f64 is for tests and references: the library's erfc, lane by lane.
HWY_INLINE NormalLaw<double> normal_law(Vec<double> x) {
  HWY_ALIGN double distribution[HWY_MAX_BYTES / sizeof(double)];
  HWY_ALIGN double bell[HWY_MAX_BYTES / sizeof(double)];
  store(distribution, x);
  for (int64_t i = 0; i < lanes<double>(); ++i) {
    bell[i] = std::exp(-0.5 * distribution[i] * distribution[i]);
    distribution[i] = 0.5 * std::erfc(-distribution[i] * 0.70710678118654752440);
  }
  return {load(distribution), load(bell)};
}

void forward(const Gelu& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    const int64_t width = k.x.cols();
    parallel_for(k.x.rows(), row_grain(width), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const T* in = k.x.row<T>(r);
        T* y = k.y.row<T>(r);
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          const auto x = load_up_to(in + c, n);
          store_up_to(y + c, hn::Mul(x, normal_law(x).distribution), n);
        });
      }
    });
  });
}

// dx = dy * (Phi(x) + x * phi(x)), phi(x) = exp(-x^2 / 2) / sqrt(2 pi).
void backward(const GeluGrad& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t width = k.x.cols();
    parallel_for(k.x.rows(), row_grain(width), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const T* in = k.x.row<T>(r);
        const T* dy = k.dy.row<T>(r);
        T* dx = k.dx.grad.row<T>(r);
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          const auto x = load_up_to(in + c, n);
          const auto law = normal_law(x);
          const auto density = hn::Mul(law.bell, set<T>(Acc(0.39894228040143267794)));
          const auto slope = hn::MulAdd(x, density, law.distribution);
          write_up_to(dx + c, hn::Mul(load_up_to(dy + c, n), slope), n, k.dx.accumulate);
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

void Gelu::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void GeluGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
