// SPDX-License-Identifier: Apache-2.0
// The product of a softmax's logits that never stores a logit: exponentials leave in bf16, and
// their sums, taken in f32, tile by tile. The fast path for Hopper of the loss
// (ops/linear_cross_entropy_gpu.cu has the portable one).
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

inline constexpr int64_t kExpTileColumns = 256;

// With l = a[rows, depth] * b[columns, depth]^T, and t the tile of kExpTileColumns columns:
//   e[r, c] = exp(l[r, c] - shifts[t, r]),  sums[t, r] = the sum of these, unrounded
// A shift is 0 unless the largest logit of its tile's row is beyond +-50: then it is that one. So
// ordinary rows are on one scale as they are, and none can overflow or vanish.
struct ExpGemm {
  int64_t rows, columns, depth;
  const void* a;  // bf16, row-major, with the elements from one row to the next
  int64_t a_stride;
  const void* b;
  int64_t b_stride;
  void* e;                 // [rows, columns], bf16; null when only the sums are wanted
  const int32_t* targets;  // [rows]
  float* sums;             // [tiles, rows]
  float* shifts;           // [tiles, rows]
  float* target_logits;    // [rows], written where the target is a column
};

// Whether this device takes such matrices.
bool takes_exp_gemm(const Stream& stream, const ExpGemm& g);
void exp_gemm_hopper(Stream& stream, const ExpGemm& g);

}  // namespace tephra::gpu
