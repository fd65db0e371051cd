// SPDX-License-Identifier: Apache-2.0
// Sums over rows in one fixed order: how a weight shared by all tokens gets its gradient.
#pragma once

#include <cstdint>

#include "tephra/base/function_ref.h"

namespace tephra::cpu {

// Cuts [0, rows) into blocks of fixed size, calls add(begin, end, sums) for each with `width`
// zeroed sums of its own, and adds the blocks in order into out (overwriting it unless
// `accumulate`). Acc is float or double.
template <class Acc>
void sum_rows(int64_t rows, int64_t width, Acc* out, bool accumulate,
              FunctionRef<void(int64_t begin, int64_t end, Acc* sums)> add);

}  // namespace tephra::cpu
