// SPDX-License-Identifier: Apache-2.0
// Elapsed time.
#pragma once

#include <chrono>

namespace tephra {

// Seconds since some fixed moment; never goes back.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace tephra
