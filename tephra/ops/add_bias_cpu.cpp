// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/add_bias.h"

#include "tephra/base/parallel.h"
#include "tephra/device/cpu/row_sums.h"

namespace tephra::kernel {

void AddBias::on_cpu() const {
  visit_float(x.dtype(), [&]<class T>() {
    using Acc = acc_t<T>;
    const int64_t width = x.cols();
    const T* b = bias.data<T>();
    parallel_for(x.rows(), 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.row<T>(r);
        T* to = y.row<T>(r);
        for (int64_t c = 0; c < width; ++c) to[c] = T(Acc(from[c]) + Acc(b[c]));
      }
    });
  });
}

void AddBiasGrad::on_cpu() const {
  visit_float(dy.dtype(), [&]<class T>() {
    using Acc = acc_t<T>;
    const int64_t width = dy.cols();
    cpu::sum_rows<Acc>(dy.rows(), width, dbias.data<Acc>(), accumulate_dbias,
                       [&](int64_t begin, int64_t end, Acc* sums) {
                         for (int64_t r = begin; r < end; ++r) {
                           const T* from = dy.row<T>(r);
                           for (int64_t c = 0; c < width; ++c) sums[c] += Acc(from[c]);
                         }
                       });
  });
}

}  // namespace tephra::kernel
