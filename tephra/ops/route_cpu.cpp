// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/route.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/ops/route_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::kernel::HWY_NAMESPACE {

using namespace simd::HWY_NAMESPACE;  // NOLINT(google-build-using-namespace): vectors of this
                                      // target

constexpr int64_t kRows = 128;  // per piece of work

template <class T>
void softmax(const T* logits, int64_t classes, acc_t<T>* p) {
  const acc_t<T> sum = sum_of_exps(logits, classes, largest_of(logits, classes), p);
  for (int64_t i = 0; i < classes; ++i) p[i] /= sum;
}

void forward(const Route& k) {
  visit_float(k.logits.dtype(), [&]<class T>() {
    using Acc = acc_t<T>;
    const int64_t classes = k.logits.cols();
    const Acc* bias = k.biases.data<Acc>();
    parallel_for(k.logits.rows(), kRows, [&](int64_t begin, int64_t end) {
      std::vector<Acc> p(static_cast<size_t>(classes));
      for (int64_t r = begin; r < end; ++r) {
        softmax(k.logits.row<T>(r), classes, p.data());
        int32_t best = 0;  // stays when every comparison is with NaN
        for (int32_t i = 1; i < classes; ++i) {
          if (p[i] + bias[i] > p[best] + bias[best]) best = i;
        }
        k.weight.data<Acc>()[r] = p[best];
        k.expert.data<int32_t>()[r] = best;
      }
    });
  });
}

// With e the chosen class: dlogits_i = dweight * p_e * ((i == e) - p_i).
void backward(const RouteGrad& k) {
  visit_float(k.logits.dtype(), [&]<class T>() {
    using Acc = acc_t<T>;
    const int64_t classes = k.logits.cols();
    parallel_for(k.logits.rows(), kRows, [&](int64_t begin, int64_t end) {
      std::vector<Acc> p(static_cast<size_t>(classes));
      for (int64_t r = begin; r < end; ++r) {
        softmax(k.logits.row<T>(r), classes, p.data());
        const int32_t chosen = k.expert.data<int32_t>()[r];
        const Acc scale = k.dweight.data<Acc>()[r] * p[chosen];
        T* d = k.dlogits.row<T>(r);
        for (int64_t i = 0; i < classes; ++i) {
          const Acc g = scale * ((i == chosen ? Acc(1) : Acc(0)) - p[i]);
          d[i] = T(k.accumulate ? Acc(d[i]) + g : g);
        }
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

void Route::on_cpu() const { HWY_DYNAMIC_DISPATCH(forward)(*this); }
void RouteGrad::on_cpu() const { HWY_DYNAMIC_DISPATCH(backward)(*this); }

}  // namespace tephra::kernel
#endif
