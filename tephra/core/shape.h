// SPDX-License-Identifier: Apache-2.0
// The extents of a tensor: at most four, held inline.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "tephra/base/error.h"

namespace tephra {

class Shape {
 public:
  static constexpr int kMaxDims = 4;
  static constexpr int64_t kMaxElements = int64_t{1} << 56;  // so that bytes never overflow

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : ndim_(static_cast<int>(dims.size())) {
    require(dims.size() <= kMaxDims, "a tensor has at most {} dimensions, got {}", kMaxDims,
            dims.size());
    std::copy(dims.begin(), dims.end(), dims_.begin());
    int64_t product = 1;  // without the zeros, so that rows() and cols() fit as well
    for (int64_t dim : dims) {
      require(dim >= 0, "a dimension cannot be negative, got {}", dim);
      if (dim == 0) continue;
      require(dim <= kMaxElements / product, "a tensor has at most 2^56 elements, got {} x {}",
              product, dim);
      product *= dim;
    }
  }

  int ndim() const { return ndim_; }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < ndim_; ++i) n *= dims_[i];
    return n;
  }
  // Negative indices count from the end.
  int64_t operator[](int i) const {
    const int at = i < 0 ? i + ndim_ : i;
    TEPHRA_ASSERT(at >= 0 && at < ndim_, "dimension index in range");
    return dims_[at];
  }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(ndim_)}; }
  // Elements of one row (the last dimension), and how many rows there are.
  int64_t cols() const { return ndim_ == 0 ? 1 : dims_[ndim_ - 1]; }
  int64_t rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < ndim_; ++i) n *= dims_[i];
    return n;
  }

  bool operator==(const Shape& other) const {
    return std::equal(dims().begin(), dims().end(), other.dims().begin(), other.dims().end());
  }

 private:
  int ndim_ = 0;
  std::array<int64_t, kMaxDims> dims_{};
};

std::string to_text(const Shape& shape);

}  // namespace tephra
