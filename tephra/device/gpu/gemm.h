// SPDX-License-Identifier: Apache-2.0
// Dense matrix products on a GPU: the vendor's library where there is one, with one algorithm for
// each shape that never splits k (cuBLASLt; hipBLASLt cannot be told so and is taken only when
// asked for), else our portable kernel. f32 is f32, not tf32.
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

enum class Number { f32, bf16 };

// C = alpha op(A) op(B) + beta C + bias, row-major, `batch` times; strides are those of the
// matrices as stored. Products are summed in f32.
struct Gemm {
  int64_t m, n, k;
  const void* a;
  int64_t lda;
  bool transpose_a;
  const void* b;
  int64_t ldb;
  bool transpose_b;
  void* c;
  int64_t ldc;
  Number in, out;  // bf16 goes to bf16 or f32, f32 to f32
  float alpha = 1, beta = 0;
  int64_t batch = 1;
  int64_t a_step = 0, b_step = 0, c_step = 0;  // elements from one matrix to the next
  const void* bias = nullptr;                  // [n], of C's type, the same for every matrix
  const void* addend = nullptr;  // what beta multiplies instead of C, laid out as C is
};

void gemm(Stream& stream, const Gemm& g);

// C (+)= op(A) op(B) in f32, where C has too few tiles to fill a device and k is long: k is cut
// into stretches by the shape alone, they are multiplied side by side and their sums added in
// order.
void gemm_by_stretches(Stream& stream, const Gemm& g);

// The twin that fast paths are compared with; compiles for every vendor.
void gemm_portable(Stream& stream, const Gemm& g);

// The vendor's library; false when it is not there or knows no algorithm for this
// (gemm_library.cu).
bool gemm_by_library(Stream& stream, const Gemm& g);
std::string gemm_library_name();
// Empty when it is not there.
std::string gemm_library_version();

}  // namespace tephra::gpu
