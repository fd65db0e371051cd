// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/qk_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/qk_norm_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

// What head h is multiplied by beside its length: 1 for queries.
template <class T>
acc_t<T> factor_of(const Tensor& temp, Temperature form, int64_t h, int64_t nq) {
  using Acc = acc_t<T>;
  if (h < nq || form == Temperature::none) return 1;
  const Acc t = static_cast<Acc>(temp.data<T>()[h - nq]);
  return form == Temperature::exp ? std::exp(t) : t;
}

void forward(const QkNorm& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t heads = k.nq + k.nk, dim = k.x.cols() / heads;
    const Acc root = std::sqrt(static_cast<Acc>(dim)), eps = std::numeric_limits<Acc>::epsilon();
    parallel_for(k.x.rows(), row_grain(k.x.cols()), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t h = 0; h < heads; ++h) {
          const T* x = k.x.row<T>(r) + h * dim;
          T* y = k.y.row<T>(r) + h * dim;
          Vec<T> squares = set<T>(0);
          for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
            const auto v = load_up_to(x + c, n);
            squares = hn::MulAdd(v, v, squares);
          });
          const Acc length = std::sqrt(sum_of_lanes<T>(squares));
          k.length.row<Acc>(r)[h] = length;
          const Acc factor = factor_of<T>(k.temp, k.form, h, k.nq);
          const auto scale = set<T>(root / std::max(length, eps) * factor);
          for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
            store_up_to(y + c, hn::Mul(load_up_to(x + c, n), scale), n);
          });
        }
      }
    });
  });
}

// With u = x / |x|, a = sqrt(dim) / |x| and f the factor that temp stands for:
// dtemp = df/dtemp * a * (dy . x), df/dtemp being 1, or f for exp; dx = f * a * (dy - u (dy . u));
// where |x| is below eps the length is a constant and the second term is absent.
template <class T>
void backward_rows(const QkNormGrad& k, int64_t begin, int64_t end, acc_t<T>* sums) {
  using Acc = acc_t<T>;
  const int64_t heads = k.nq + k.nk, dim = k.x.cols() / heads;
  const Acc root = std::sqrt(static_cast<Acc>(dim)), eps = std::numeric_limits<Acc>::epsilon();
  for (int64_t r = begin; r < end; ++r) {
    for (int64_t h = 0; h < heads; ++h) {
      const T *x = k.x.row<T>(r) + h * dim, *dy = k.dy.row<T>(r) + h * dim;
      const Acc length = k.length.row<Acc>(r)[h];
      const Acc inverse = Acc(1) / std::max(length, eps);
      Vec<T> dots = set<T>(0);
      for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
        dots = hn::MulAdd(load_up_to(dy + c, n), load_up_to(x + c, n), dots);
      });
      const Acc dot = sum_of_lanes<T>(dots) * inverse;  // dy . u
      const Acc factor = factor_of<T>(k.temp, k.form, h, k.nq);
      if (h >= k.nq && sums) {
        sums[h - k.nq] += root * dot * (k.form == Temperature::exp ? factor : Acc(1));
      }
      if (!k.dx.grad) continue;
      T* dx = k.dx.grad.row<T>(r) + h * dim;
      const auto scale = set<T>(root * inverse * factor);
      const auto along = set<T>(length > eps ? dot * inverse : Acc(0));
      for_each_vector<T>(dim, [&](int64_t c, int64_t n) HWY_ATTR {
        const auto v = hn::NegMulAdd(load_up_to(x + c, n), along, load_up_to(dy + c, n));
        write_up_to(dx + c, hn::Mul(v, scale), n, k.dx.accumulate);
      });
    }
  }
}

void backward(const QkNormGrad& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t rows = k.x.rows();
    if (!k.dtemp.grad) {
      parallel_for(rows, row_grain(k.x.cols()), [&](int64_t begin, int64_t end) HWY_ATTR {
        backward_rows<T>(k, begin, end, nullptr);
      });
      return;
    }
    cpu::sum_rows<Acc>(rows, k.nk, k.dtemp.grad.data<Acc>(), k.dtemp.accumulate,
                       [&](int64_t begin, int64_t end, Acc* sums)
                           HWY_ATTR { backward_rows<T>(k, begin, end, sums); });
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

void QkNorm::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void QkNormGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
