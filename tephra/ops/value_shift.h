// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/segments.h"

namespace tephra {

// CCA's value: the first half of each row from this token, the second half from the one before,
//   out_t = [ v_t[0:w] , v_{t-1}[w:2w] ]   for v [N, 2w].
// At a segment's first row the second half is left[b], with `left` [B, w] (or [B, 1, w], as
// tail_state gives it); zeros when undefined.
Tensor value_shift(const Tensor& v, const Segments& segments, const Tensor& left);

namespace kernel {

struct ValueShift {
  const Tensor& v;  // [N, 2w]
  const Segments& segments;
  const Tensor& left;  // B rows of w, or undefined
  Tensor& out;         // [N, 2w]

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct ValueShiftGrad {
  const Tensor& dout;
  const Segments& segments;
  Tensor dv;  // undefined when not wanted
  bool accumulate_dv;
  Tensor dleft;  // undefined when not wanted
  bool accumulate_dleft;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
