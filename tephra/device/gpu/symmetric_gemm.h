// SPDX-License-Identifier: Apache-2.0
// Symmetric products of a batch of matrices in one launch: tiles from the diagonal on are
// multiplied, and each is stored twice. The fast path for Hopper of Newton-Schulz
// (optim/newton_schulz_gpu.cu has the portable one).
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

// C = alpha op(X) op(X)^T + beta X, bf16, row-major and dense, sums in f32 in one fixed order.
struct SymmetricGemm {
  int64_t count;
  int64_t side, depth;  // of op(X)
  const void* x;
  bool transposed;  // op(X) = X^T: x is [count, depth, side]
  void* c;          // [count, side, side]
  float alpha = 1;
  float beta = 0;  // other than 0 only where X itself is symmetric, and not transposed
};

// False when this device, shape or alignment is not for it (symmetric_gemm_cuda.cu).
bool symmetric_gemm_hopper(Stream& stream, const SymmetricGemm& g);

}  // namespace tephra::gpu
