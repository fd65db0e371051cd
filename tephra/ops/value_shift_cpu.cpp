// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tephra/base/parallel.h"
#include "tephra/ops/row_copy.h"
#include "tephra/ops/value_shift.h"

namespace tephra::kernel {
namespace {

constexpr int64_t kRows = 128;  // per piece of work

}  // namespace

void ValueShift::on_cpu() const {
  const int64_t half = v.cols() / 2;
  const int32_t* start = segments.start_N.data<int32_t>();
  const int32_t* sequence = segments.sequence_N.data<int32_t>();
  visit_float(v.dtype(), [&]<class T>() {
    parallel_for(v.rows(), kRows, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* before = nullptr;
        if (r > start[r]) {
          before = v.row<T>(r - 1) + half;
        } else if (left) {
          before = left.row<T>(sequence[r]);
        }
        std::copy_n(v.row<T>(r), half, out.row<T>(r));
        write_row(out.row<T>(r) + half, before, half, false);
      }
    });
  });
}

void ValueShiftGrad::on_cpu() const {
  const int64_t half = dout.cols() / 2;
  const int32_t* stop = segments.end_N.data<int32_t>();
  const int32_t* bounds = segments.bounds.data<int32_t>();
  visit_float(dout.dtype(), [&]<class T>() {
    if (dv) {
      parallel_for(dv.rows(), kRows, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          const T* next = r + 1 < stop[r] ? dout.row<T>(r + 1) + half : nullptr;
          write_row(dv.row<T>(r), dout.row<T>(r), half, accumulate_dv);
          write_row(dv.row<T>(r) + half, next, half, accumulate_dv);
        }
      });
    }
    if (dleft) {
      parallel_for(segments.count, kRows, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const bool empty = bounds[b] == bounds[b + 1];
          const T* first = empty ? nullptr : dout.row<T>(bounds[b]) + half;
          write_row(dleft.row<T>(b), first, half, accumulate_dleft);
        }
      });
    }
  });
}

}  // namespace tephra::kernel
