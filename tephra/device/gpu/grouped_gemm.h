// SPDX-License-Identifier: Apache-2.0
// Products of every expert's rows with its own matrix in one launch, with the cuts on the device:
// expert e has rows offsets[e] .. offsets[e + 1] of the row matrices. bf16 in, sums in f32 over the
// reduction in one fixed order. The fast path for Hopper; ops/grouped_linear_gpu.cu has the
// portable one.
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

enum class GroupedProduct {
  output,          // y[rows, out] = x[rows, in] * w[e][out, in]^T
  input_gradient,  // dx[rows, in] = dy[rows, out] * w[e][out, in]
  // dw[e][out, in] (f32) = or += dy[rows, out]^T * x[rows, in]. Of the tile at an expert's end,
  // dy's rows behind it count as zeros and x's do not: an Inf or NaN in the next expert's first
  // rows of x reaches this expert's gradient, too, which then was not to be used anyway.
  weight_gradient,
};

// Row-major, with the elements from one row to the next; w and dw are dense.
struct GroupedGemm {
  GroupedProduct product;
  int experts;
  int64_t rows;  // of the row matrices: what offsets may reach
  int64_t in, out;
  const int32_t* offsets;  // [experts + 1], on the device, ascending
  const void* a;           // x for the output, else dy
  int64_t a_stride;
  const void* b;  // w, but x for the weight gradient
  int64_t b_stride;
  void* c;
  int64_t c_stride;
  bool accumulate = false;  // into dw
};

// False when this device, shape or alignment is not for it (grouped_gemm_cuda.cu).
bool grouped_gemm_hopper(Stream& stream, const GroupedGemm& g);

// Its two forms. In turns: a weight gradient of experts with many rows, of so many multiprocessors
// (weight_gradient_cuda.cu); false where it is not for this shape. In tiles: all others.
bool weight_gradient_in_turns(Stream& stream, const GroupedGemm& g, int processors);
bool grouped_gemm_in_tiles(Stream& stream, const GroupedGemm& g, int processors);

}  // namespace tephra::gpu
