// SPDX-License-Identifier: Apache-2.0
// The number of taps of a convolution as a constant where it can be one, so that the compiler
// unrolls the loop over them.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tephra::kernel {

// Calls f.operator()<K>() with K = taps for the widths that models use (two in ZAYA1, four in
// Mamba) in the types they run in, else with K = 0: each constant is compiled again for every type
// and instruction set. The result has the same bits either way.
template <class T, class F>
void visit_taps(int64_t taps, F&& f) {
  if constexpr (!std::is_same_v<T, double>) {
    if (taps == 2) return f.template operator()<2>();
    if (taps == 4) return f.template operator()<4>();
  }
  return f.template operator()<0>();
}

}  // namespace tephra::kernel
