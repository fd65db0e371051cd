// SPDX-License-Identifier: Apache-2.0
// Four neighbouring threads that share a row: what they have together, in every one of them.
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

__device__ inline float quad_sum(float v) {
  v += shuffle_xor(v, 1);
  return v + shuffle_xor(v, 2);
}
__device__ inline float quad_max(float v) {
  v = fmaxf(v, shuffle_xor(v, 1));
  return fmaxf(v, shuffle_xor(v, 2));
}

}  // namespace tephra::gpu
