// SPDX-License-Identifier: Apache-2.0
// Our own thread pool. Work is cut by its size and a grain, never by the number of threads, so a
// result cannot depend on it (docs/decisions/0002-determinism.md).
#pragma once

#include <cstdint>

#include "tephra/base/function_ref.h"

namespace tephra {

// Threads that parallel_for uses, the caller included. Default: the cores this process may use.
int num_threads();
void set_num_threads(int count);

// Calls body(begin, end) once for each piece of [0, n) cut at multiples of `grain`, on all threads
// in no fixed order, and waits. The first exception is rethrown. Inside a body it runs serially.
void parallel_for(int64_t n, int64_t grain, FunctionRef<void(int64_t begin, int64_t end)> body);

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A grain for light work on rows of `width` elements: enough of it to be worth handing out.
inline int64_t row_grain(int64_t width) {
  return width < (1 << 15) ? (1 << 15) / (width > 0 ? width : 1) : 1;
}

}  // namespace tephra
