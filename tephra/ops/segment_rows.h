// SPDX-License-Identifier: Apache-2.0
// What the ops along the token axis share: a segment as a line of rows, and Segments as inputs of a
// record.
#pragma once

#include <string_view>
#include <vector>

#include "tephra/core/segments.h"

namespace tephra {

// Rows of segments by position: tokens at [0, length) come from `rows` [N, C], what lies just
// before them from `state` [count, state_rows, C]. All else, and an undefined tensor, is a row of
// zeros.
template <class T>
class SegmentRows {
 public:
  SegmentRows(const Segments& segments, const Tensor& rows, const Tensor& state, int64_t width)
      : rows_(rows),
        state_(state),
        state_rows_(state ? state.dim(1) : 0),
        bounds_(segments.bounds.data<int32_t>()),
        wide_zeros_(width <= kMostZeros ? 0 : static_cast<size_t>(width)) {}

  const T* at(int64_t segment, int64_t position) const {
    const int64_t row = bounds_[segment] + position;
    if (position >= 0) {
      return rows_ && row < bounds_[segment + 1] ? rows_.at(row) : zeros();
    }
    const int64_t behind = state_rows_ + position;
    return behind >= 0 ? state_.at(segment * state_rows_ + behind) : zeros();
  }

 private:
  // Of a tensor that outlives this; null when it is undefined.
  struct Rows {
    const T* first = nullptr;
    int64_t stride = 0;

    explicit Rows(const Tensor& from) {
      if (from) first = from.data<T>(), stride = from.row_stride();
    }
    explicit operator bool() const { return first != nullptr; }
    const T* at(int64_t row) const { return first + row * stride; }
  };

  // For all: to clear a row anew takes longer than what one token does with it.
  static constexpr int64_t kMostZeros = 4096;
  inline static const T kZeros[kMostZeros] = {};

  const T* zeros() const { return wide_zeros_.empty() ? kZeros : wide_zeros_.data(); }

  Rows rows_, state_;
  int64_t state_rows_;
  const int32_t* bounds_;
  std::vector<T> wide_zeros_;
};

// `own` followed by the tensors of `segments`: the inputs of a record.
Tensors with_segments(Tensors own, const Segments& segments);
// The segments that follow the first `own` tensors of such a list.
Segments segments_after(const Tensors& inputs, size_t own);

// Checks that `x` is [N, C] with a row per token, and that a state fits.
void require_tokens(std::string_view op, std::string_view name, const Tensor& x,
                    const Segments& segments);
void require_state(std::string_view op, const Tensor& left, const Shape& shape, DType dtype);

}  // namespace tephra
