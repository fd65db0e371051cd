// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/scaled_add.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/scaled_add_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT: vectors of this target

void forward(const ScaledAdd& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    const int64_t width = k.x.cols();
    const T* scale = k.scale.data<T>();
    parallel_for(k.x.rows(), row_grain(width), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = k.x.row<T>(r);
        const T* y = k.y.row<T>(r);
        T* out = k.out.row<T>(r);
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          const auto s = load_up_to(scale + c, n);
          store_up_to(out + c, hn::MulAdd(load_up_to(y + c, n), s, load_up_to(x + c, n)), n);
        });
      }
    });
  });
}

// Writes dy of rows [begin, end) if it is wanted and adds dout * y to `sums` unless null.
template <class T>
void backward_rows(const ScaledAddGrad& k, int64_t begin, int64_t end, acc_t<T>* sums) {
  const int64_t width = k.y.cols();
  const T* scale = k.scale.data<T>();
  for (int64_t r = begin; r < end; ++r) {
    const T* y = k.y.row<T>(r);
    const T* dout = k.dout.row<T>(r);
    T* dy = k.dy.grad ? k.dy.grad.row<T>(r) : nullptr;
    for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
      const auto d = load_up_to(dout + c, n);
      if (sums) write_up_to(sums + c, hn::Mul(d, load_up_to(y + c, n)), n, true);
      if (dy) write_up_to(dy + c, hn::Mul(d, load_up_to(scale + c, n)), n, k.dy.accumulate);
    });
  }
}

void backward(const ScaledAddGrad& k) {
  visit_float(k.y.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t rows = k.y.rows(), width = k.y.cols();
    if (!k.dscale.grad) {
      parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) HWY_ATTR {
        backward_rows<T>(k, begin, end, nullptr);
      });
      return;
    }
    cpu::sum_rows<Acc>(rows, width, k.dscale.grad.data<Acc>(), k.dscale.accumulate,
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

void ScaledAdd::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void ScaledAddGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
