// SPDX-License-Identifier: Apache-2.0
// The number of taps of a convolution as a constant where it can be one, so that the compiler
// unrolls the loop over them.
#pragma once

#include <cstdint>

namespace tephra::kernel {

// Calls f.operator()<K>() with K = taps, or 0 when there are more than four.
template <class F>
void visit_taps(int64_t taps, F&& f) {
  switch (taps) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    default:
      return f.template operator()<0>();
  }
}

}  // namespace tephra::kernel
