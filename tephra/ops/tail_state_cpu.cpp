// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tephra/base/parallel.h"
#include "tephra/ops/row_copy.h"
#include "tephra/ops/segment_rows.h"
#include "tephra/ops/tail_state.h"

namespace tephra::kernel {
namespace {

constexpr int64_t kRows = 64;  // per piece of work

}  // namespace

void TailState::on_cpu() const {
  const int64_t kept = tail.dim(1), width = z.cols();
  const int32_t* bounds = segments.bounds.data<int32_t>();
  visit_float(z.dtype(), [&]<class T>() {
    const SegmentRows<T> line(segments, z, left, width);
    parallel_for(tail.rows(), kRows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t b = r / kept;
        const int64_t length = bounds[b + 1] - bounds[b];
        std::copy_n(line.at(b, length - kept + r % kept), width, tail.row<T>(r));
      }
    });
  });
}

// A token e rows before the end of its segment went to row kept - 1 - e of the tail, a row of the
// left state moved down by the length of the segment; what fell out has no gradient.
void TailStateGrad::on_cpu() const {
  const int64_t kept = dtail.dim(1), width = dtail.cols();
  const int32_t* bounds = segments.bounds.data<int32_t>();
  const int32_t* stop = segments.end_N.data<int32_t>();
  const int32_t* sequence = segments.sequence_N.data<int32_t>();
  visit_float(dtail.dtype(), [&]<class T>() {
    if (dz) {
      parallel_for(dz.rows(), kRows, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t at = kept - (stop[r] - r);
          const T* from = at >= 0 ? dtail.row<T>(sequence[r] * kept + at) : nullptr;
          write_row(dz.row<T>(r), from, width, accumulate_dz);
        }
      });
    }
    if (dleft) {
      parallel_for(dleft.rows(), kRows, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const int64_t b = r / kept;
          const int64_t at = r % kept - (bounds[b + 1] - bounds[b]);
          const T* from = at >= 0 ? dtail.row<T>(b * kept + at) : nullptr;
          write_row(dleft.row<T>(r), from, width, accumulate_dleft);
        }
      });
    }
  });
}

}  // namespace tephra::kernel
