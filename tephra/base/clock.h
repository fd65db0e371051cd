// SPDX-License-Identifier: Apache-2.0
// Elapsed time.
#pragma once

#include <chrono>

#include "tephra/base/function_ref.h"

namespace tephra {

// Seconds since some fixed moment; never goes back.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Since this process began, to a hundredth.
double process_seconds();

inline double seconds_of(FunctionRef<void()> work) {
  const double begin = steady_seconds();
  work();
  return steady_seconds() - begin;
}

}  // namespace tephra
