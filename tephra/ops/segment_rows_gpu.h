// SPDX-License-Identifier: Apache-2.0
// Segments as GPU kernels read them.
#pragma once

#include "tephra/core/gpu_kernel.h"
#include "tephra/core/segments.h"

namespace tephra::gpu {

struct SegmentTable {
  const int32_t* start;     // [N]
  const int32_t* end;       // [N]
  const int32_t* sequence;  // [N]
  const int32_t* bounds;    // [count + 1]

  __device__ int64_t length(int64_t segment) const { return bounds[segment + 1] - bounds[segment]; }
};

inline SegmentTable table_of(const Segments& s) {
  return {s.start_N.data<int32_t>(), s.end_N.data<int32_t>(), s.sequence_N.data<int32_t>(),
          s.bounds.data<int32_t>()};
}

// Rows of a segment by position, as SegmentRows on the CPU: tokens from 0 on, before them the rows
// of its state; null for a row of zeros.
template <class T>
struct SegmentLine {
  SegmentTable segments;
  Rows<T> rows;
  Rows<T> state;  // [count, state_rows, C] as count * state_rows rows
  int64_t state_rows;

  __device__ T* at(int64_t segment, int64_t position) const {
    if (position >= 0) {
      return rows && position < segments.length(segment) ? rows[segments.bounds[segment] + position]
                                                         : nullptr;
    }
    const int64_t behind = state_rows + position;
    return behind >= 0 ? state[segment * state_rows + behind] : nullptr;
  }
};

template <class T>
SegmentLine<T> line_of(const Segments& segments, const Tensor& rows, const Tensor& state) {
  return {table_of(segments), rows_of<T>(rows), rows_of<T>(state), state ? state.dim(1) : 0};
}

}  // namespace tephra::gpu
