// SPDX-License-Identifier: Apache-2.0
// What the kernels of a decode step share: the merge into the stream, its norm, and products of all
// rows with one matrix.
#pragma once

#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/skinny.h"
#include "tephra/models/zaya1/decode_plan.h"

namespace tephra::zaya1 {

// stream = (x + hidden_bias) * hidden_scale + (stream + residual_bias) * residual_scale, as
// merge_norm does, of one element.
struct DecodeMerged {
  DecodeMerge scale;
  float* stream;
  int width;

  __device__ void operator()(int64_t row, int column, bf16 x) const {
    float* at = stream + row * width + column;
    *at = (float(x) + float(scale.hidden_bias[column])) * float(scale.hidden_scale[column]) +
          (*at + float(scale.residual_bias[column])) * float(scale.residual_scale[column]);
  }
};

// A row of the stream, normed, by a block of gpu::kThreads: the sums of ops/merge_norm_gpu.cu.
__device__ inline void decode_norm_row(const float* stream, const bf16* weight, int width,
                                       float eps, bf16* out) {
  constexpr int W = gpu::kWide;
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x) * W; c < width; c += gpu::kThreads * W) {
    const auto m = gpu::load<W>(stream + c);
#pragma unroll
    for (int i = 0; i < W; ++i) sum += m[i] * m[i];
  }
  const float s = 1.0f / sqrtf(gpu::block_sum(sum) / static_cast<float>(width) + eps);
  for (int c = static_cast<int>(threadIdx.x) * W; c < width; c += gpu::kThreads * W) {
    const auto m = gpu::load<W>(stream + c);
    const auto w = gpu::load<W>(weight + c);
    gpu::store(out + c, gpu::Floats<W>::of([&](int i) { return m[i] * s * w[i]; }));
  }
}

// Where a product's inputs come from: rows in memory or, for few rows, the stream that it norms.
struct DecodeInput {
  const bf16* rows;
  const float* stream;  // null: `rows` it is
  const bf16* norm;
  float eps;
};

// Elements from one normed row to the next in shared memory: reads of eight of them at once fall on
// different banks.
__host__ __device__ constexpr int decode_shared_stride(int width) { return width + 32; }

// For the rows of `input`, ready to be multiplied. All threads take part; `shared` has room for
// kDecodeNormedRows.
struct DecodeRowsReader {
  const bf16* rows;
  int64_t stride;

  __device__ DecodeRowsReader(const DecodeInput& input, int count, int width, bf16* shared)
      : rows(input.rows), stride(width) {
    if (!input.stream) return;
    rows = shared;
    stride = decode_shared_stride(width);
    for (int r = 0; r < count; ++r) {
      decode_norm_row(input.stream + int64_t{r} * width, input.norm, width, input.eps,
                      shared + r * stride);
    }
    __syncthreads();
  }
  __device__ const bf16* operator[](int64_t row) const { return rows + row * stride; }
};

// Bytes of shared memory that a reader needs.
inline int64_t decode_shared_bytes(const DecodeInput& input, int width) {
  return input.stream ? int64_t{kDecodeNormedRows} * decode_shared_stride(width) * 2 : 0;
}

// Calls f.operator()<kSteps>() for matrices of this many columns.
template <class F>
void visit_depth(int64_t columns, F&& f) {
  switch (columns / gpu::kSkinnyColumns) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    default:
      TEPHRA_ASSERT(false, "decode_takes_depth was asked");
  }
}

}  // namespace tephra::zaya1
