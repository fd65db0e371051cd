// SPDX-License-Identifier: Apache-2.0
// Matrix products on the CPU. float goes to oneDNN, always single-threaded on tiles that are cut by
// shape alone and never split K, so the thread count cannot change a bit. double is our own (the
// oracle's type); bf16 operands are widened to float tile by tile.
#pragma once

#include <cstdint>

#include "tephra/base/number.h"

namespace tephra::cpu {

// C[m, n] = op(A) op(B) + (accumulate ? C : 0), row-major; lda, ldb, ldc are row strides of the
// matrices as stored (before the transpose).
template <class In, class Out>
struct Gemm {
  int64_t m, n, k;
  const In* a;
  int64_t lda;
  bool transpose_a;
  const In* b;
  int64_t ldb;
  bool transpose_b;
  Out* c;
  int64_t ldc;
  bool accumulate = false;
};

// On all threads. (double, double), (float, float), (bf16, bf16) and (bf16, float).
template <class In, class Out>
void gemm(const Gemm<In, Out>& g);

// On the calling thread: for kernels that cut their own tiles.
template <class In, class Out>
void gemm_serial(const Gemm<In, Out>& g);

}  // namespace tephra::cpu
