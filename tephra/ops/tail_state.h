// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/segments.h"

namespace tephra {

// The last `rows` rows of each segment, [B, rows, C] with the oldest first: the left state of what
// continues it. A segment that is shorter, or empty, takes the rest from `left` [B, rows, C]; zeros
// when undefined.
Tensor tail_state(const Tensor& z, const Segments& segments, const Tensor& left, int64_t rows);

namespace kernel {

struct TailState {
  const Tensor& z;  // [N, C]
  const Segments& segments;
  const Tensor& left;  // like tail, or undefined
  Tensor& tail;        // [B, rows, C]

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct TailStateGrad {
  const Tensor& dtail;
  const Segments& segments;
  Tensor dz;  // undefined when not wanted
  bool accumulate_dz;
  Tensor dleft;  // undefined when not wanted
  bool accumulate_dleft;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
