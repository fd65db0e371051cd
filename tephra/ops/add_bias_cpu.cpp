// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/add_bias.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/add_bias_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/row_sums.h"
#include "tephra/device/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

void forward(const AddBias& k) {
  visit_float(k.x.dtype(), [&]<class T>() HWY_ATTR {
    const int64_t width = k.x.cols();
    const T* bias = k.bias.data<T>();
    parallel_for(k.x.rows(), row_grain(width), [&](int64_t begin, int64_t end) HWY_ATTR {
      for (int64_t r = begin; r < end; ++r) {
        const T* x = k.x.row<T>(r);
        T* y = k.y.row<T>(r);
        for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
          store_up_to(y + c, hn::Add(load_up_to(x + c, n), load_up_to(bias + c, n)), n);
        });
      }
    });
  });
}

// Row by row into the sums: one order for every column.
void backward(const AddBiasGrad& k) {
  visit_float(k.dy.dtype(), [&]<class T>() HWY_ATTR {
    using Acc = acc_t<T>;
    const int64_t width = k.dy.cols();
    cpu::sum_rows<Acc>(k.dy.rows(), width, k.dbias.data<Acc>(), k.accumulate_dbias,
                       [&](int64_t begin, int64_t end, Acc* sums) HWY_ATTR {
                         for (int64_t r = begin; r < end; ++r) {
                           const T* dy = k.dy.row<T>(r);
                           for_each_vector<T>(width, [&](int64_t c, int64_t n) HWY_ATTR {
                             write_up_to(sums + c, load_up_to(dy + c, n), n, true);
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

void AddBias::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void AddBiasGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
