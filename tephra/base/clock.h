// SPDX-License-Identifier: Apache-2.0
// Time that only moves forward, in seconds.
#pragma once

#include <chrono>

#include "tephra/base/function_ref.h"

namespace tephra {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double seconds_of(FunctionRef<void()> work) {
  const double begin = now_s();
  work();
  return now_s() - begin;
}

}  // namespace tephra
