// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/copy_rows.h"

#include <cstring>

#include "tephra/base/parallel.h"

namespace tephra::kernel {

void CopyRows::on_cpu() const {
  const int64_t size = size_of(to.dtype());
  const size_t row_bytes = static_cast<size_t>(to.cols() * size);
  const int32_t* rows = row_N.data<int32_t>();
  parallel_for(from.rows(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      TEPHRA_ASSERT(rows[i] >= 0 && rows[i] < to.rows(), "a cache row lies within the cache");
      std::memcpy(static_cast<char*>(to.raw()) + rows[i] * to.row_stride() * size,
                  static_cast<const char*>(from.raw()) + i * from.row_stride() * size, row_bytes);
    }
  });
}

void TakeRows::on_cpu() const {
  const int64_t size = size_of(to.dtype());
  const size_t row_bytes = static_cast<size_t>(to.cols() * size);
  const int32_t* rows = row_N.data<int32_t>();
  for (int64_t i = 0; i < to.rows(); ++i) {
    TEPHRA_ASSERT(rows[i] >= 0 && rows[i] < from.rows(), "a row that is taken is there");
    std::memcpy(static_cast<char*>(to.raw()) + i * to.row_stride() * size,
                static_cast<const char*>(from.raw()) + rows[i] * from.row_stride() * size,
                row_bytes);
  }
}

}  // namespace tephra::kernel
