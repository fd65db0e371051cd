// SPDX-License-Identifier: Apache-2.0
// For kernels that only move rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tephra/base/number.h"

namespace tephra::kernel {

// to = from, or to += from; a null `from` is a row of zeros.
template <class T>
void write_row(T* to, const T* from, int64_t width, bool accumulate) {
  if (accumulate) {
    for (int64_t c = 0; from && c < width; ++c) to[c] = T(acc_t<T>(to[c]) + acc_t<T>(from[c]));
  } else if (from) {
    std::copy_n(from, width, to);
  } else {
    std::fill_n(to, width, T(0));
  }
}

}  // namespace tephra::kernel
