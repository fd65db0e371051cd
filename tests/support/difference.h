// SPDX-License-Identifier: Apache-2.0
// How far values are apart, for bounds that NaN must not pass: std::max drops it.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "tephra/base/error.h"
#include "tephra/core/tensor.h"

namespace tephra {

// Infinite where either is no number; equal infinities are not apart.
inline double difference(double a, double b) {
  const double apart = a == b ? 0 : std::abs(a - b);
  return std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart;
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape(), "compared: shapes {} and {}", a.shape(), b.shape());
  double largest = 0;
  for (int64_t i = 0; i < a.numel(); ++i) largest = std::max(largest, difference(a.at(i), b.at(i)));
  return largest;
}

// For bounds relative to it: one that is not finite would let everything pass, so it fails.
inline double largest_value(const Tensor& t) {
  double largest = 0;
  for (int64_t i = 0; i < t.numel(); ++i) {
    require_data(std::isfinite(t.at(i)), "largest value: {} is {}", i, t.at(i));
    largest = std::max(largest, std::abs(t.at(i)));
  }
  return largest;
}

}  // namespace tephra
