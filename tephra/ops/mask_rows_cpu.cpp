// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/mask_rows.h"

#include "tephra/base/parallel.h"
#include "tephra/ops/row_copy.h"

namespace tephra::kernel {

void MaskRows::on_cpu() const {
  const int32_t* mask = mask_N.data<int32_t>();
  visit_float(from.dtype(), [&]<class T>() {
    parallel_for(from.rows(), 64, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* row = mask[r] != 0 ? from.row<T>(r) : nullptr;
        write_row(to.row<T>(r), row, from.cols(), accumulate);
      }
    });
  });
}

}  // namespace tephra::kernel
