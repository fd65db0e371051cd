// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/segment_rows.h"

namespace tephra {

Tensors with_segments(Tensors own, const Segments& segments) {
  own.insert(own.end(), {segments.start_N, segments.end_N, segments.position_N, segments.sequence_N,
                         segments.bounds});
  return own;
}

Segments segments_after(const Tensors& inputs, size_t own) {
  TEPHRA_ASSERT(inputs.size() >= own + 5, "segments are recorded as five tensors");
  Segments s;
  s.start_N = inputs[own];
  s.end_N = inputs[own + 1];
  s.position_N = inputs[own + 2];
  s.sequence_N = inputs[own + 3];
  s.bounds = inputs[own + 4];
  s.count = s.bounds.numel() - 1;
  return s;
}

void require_tokens(std::string_view op, std::string_view name, const Tensor& x,
                    const Segments& segments) {
  require(x.ndim() == 2, "{}: {} must be [tokens, width], got {}", op, name, x.shape());
  require(x.rows() == segments.tokens(), "{}: {} has {} rows, the segments have {} tokens", op,
          name, x.rows(), segments.tokens());
}

void require_state(std::string_view op, const Tensor& left, const Shape& shape, DType dtype) {
  if (!left) return;
  require(left.shape() == shape, "{}: left must be {}, got {}", op, shape, left.shape());
  require(left.dtype() == dtype, "{}: left is {}, expected {} as the tokens", op, left.dtype(),
          dtype);
}

}  // namespace tephra
