// SPDX-License-Identifier: Apache-2.0
// What the kernels of a decode step share: the merge into the stream, its norm, and products of all
// rows with one matrix.
#pragma once

#include "tephra/core/gpu_kernel.h"
#include "tephra/device/gpu/skinny.h"
#include "tephra/models/zaya1/decode_plan.h"

namespace tephra::zaya1 {

// One element of the stream after a merge, as merge_norm has it. Which product is fused with the
// sum is said: compilers choose, kernel by kernel.
__device__ inline float decode_merged(bf16 x, float before, float hidden_scale, float hidden_bias,
                                      float residual_scale, float residual_bias) {
  return fmaf(float(x) + hidden_bias, hidden_scale, (before + residual_bias) * residual_scale);
}

// The merge into the stream, of one element. A column's part of the vectors is read ahead.
struct DecodeMerged {
  DecodeMerge scale;
  float* stream;
  int width;

  struct Column {
    float hidden_scale, hidden_bias, residual_scale, residual_bias;
    float* stream;
    int width;

    __device__ float before(int64_t row) const { return stream[row * width]; }
    __device__ void write(int64_t row, float before, bf16 x) const {
      stream[row * width] =
          decode_merged(x, before, hidden_scale, hidden_bias, residual_scale, residual_bias);
    }
  };
  __device__ Column column(int c) const {
    return {float(scale.hidden_scale[c]),
            float(scale.hidden_bias[c]),
            float(scale.residual_scale[c]),
            float(scale.residual_bias[c]),
            stream + c,
            width};
  }
};

// Norms rows of up to kThreads * kWide columns: a thread has eight of each row, the sums are those
// of ops/merge_norm_gpu.cu. The norm's weights are read ahead.
class DecodeNormer {
 public:
  __device__ DecodeNormer(const bf16* norm, int width) : width_(width) {
    if (norm && column() < width) weight_ = gpu::load<gpu::kWide>(norm + column());
  }

  // By a whole block of kThreads.
  __device__ void norm(const float* stream, int count, float eps, bf16* out, int out_stride) const {
    norm(stream, count, eps, [&](int row, const gpu::Floats<gpu::kWide>& values) {
      gpu::store(out + row * out_stride + column(), values);
    });
  }
  // write(row, values) for a thread's columns of each row.
  template <class Write>
  __device__ void norm(const float* stream, int count, float eps, const Write& write) const {
    constexpr int W = gpu::kWide, kAtOnce = 4, kWaves = gpu::kThreads / 32;
    __shared__ float parts[kAtOnce][kWaves];
    for (int begin = 0; begin < count; begin += kAtOnce) {
      gpu::Floats<W> m[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (begin + i < count && column() < width_) {
          m[i] = gpu::load<W>(stream + int64_t{begin + i} * width_ + column());
        }
      }
      if (begin > 0) __syncthreads();  // the parts have been read
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < W; ++k) sum += m[i][k] * m[i][k];
        sum = gpu::lanes_sum(sum, 32);
        if (threadIdx.x % 32 == 0) parts[i][threadIdx.x / 32] = sum;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (begin + i >= count || column() >= width_) continue;
        float sum = parts[i][0];
        for (int w = 1; w < kWaves; ++w) sum += parts[i][w];
        const float s = 1.0f / sqrtf(sum / static_cast<float>(width_) + eps);
        write(begin + i, gpu::Floats<W>::of([&](int k) { return m[i][k] * s * weight_[k]; }));
      }
    }
  }

  // The first of a thread's.
  __device__ static int column() { return static_cast<int>(threadIdx.x) * gpu::kWide; }

 private:
  int width_;
  gpu::Floats<gpu::kWide> weight_;
};

// Where a column lies in rows that products of warpgroups multiply. The instruction that all other
// products use adds up sixteen products at once: of 32 columns those whose place in an eight is 0
// to 3, then the rest. In this order they adjoin.
__host__ __device__ constexpr int64_t decode_ordered(int64_t column) {
  return column / 32 * 32 + column % 8 / 2 * 8 + column % 32 / 8 * 2 + column % 2;
}

// Where a product's inputs come from: rows in memory or, for few rows, the stream that it norms.
struct DecodeInput {
  const bf16* rows;
  const float* stream;  // null: `rows` it is
  const bf16* norm;     // null without a stream
  float eps;
};

// Elements from one normed row to the next in shared memory: reads of eight of them at once fall on
// different banks.
__host__ __device__ constexpr int decode_shared_stride(int width) { return width + 32; }

// The rows of `input`, ready to be multiplied when all threads have called ready(), which waits for
// nothing but the stream. `shared` has room for kDecodeNormedRows.
class DecodeRowsReader {
 public:
  __device__ DecodeRowsReader(const DecodeInput& input, int width, gpu::Bits128* shared)
      : input_(input),
        normer_(input.norm, width),
        width_(width),
        shared_(reinterpret_cast<bf16*>(shared)) {}

  __device__ void ready(int count) {
    if (!input_.stream) return;
    normer_.norm(input_.stream, count, input_.eps, shared_, decode_shared_stride(width_));
    __syncthreads();
  }
  __device__ const bf16* operator[](int64_t row) const {
    return input_.stream ? shared_ + row * decode_shared_stride(width_)
                         : input_.rows + row * width_;
  }

 private:
  DecodeInput input_;
  DecodeNormer normer_;
  int width_;
  bf16* shared_;
};

// Bytes of shared memory that a reader needs.
inline int64_t decode_shared_bytes(const DecodeInput& input, int width) {
  return input.stream ? int64_t{kDecodeNormedRows} * decode_shared_stride(width) * 2 : 0;
}

// Over how many blocks a product's tokens are spread when so many have its matrix: what finds room
// at once on a large device where a multiprocessor takes `each`.
inline int64_t decode_token_blocks(int64_t blocks, int64_t each, int rows) {
  constexpr int64_t kMultiprocessors = 132;
  const int64_t groups = gpu::blocks_for(rows, gpu::kSkinnyTokens);
  return std::clamp<int64_t>(kMultiprocessors * each / blocks, 1, groups);
}

// Calls f.operator()<n>() for the powers of two that kernels are made for: so many query heads of a
// KV head, so many steps of a matrix' columns.
template <class F>
void visit_power(int64_t n, F&& f) {
  switch (n) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    default:
      TEPHRA_ASSERT(false, "a decode step takes 1, 2, 4 or 8");
  }
}

// Calls f.operator()<kSteps>() for matrices of this many columns.
template <class F>
void visit_depth(int64_t columns, F&& f) {
  visit_power(columns / gpu::kSkinnyColumns, f);
}

// Calls f.operator()<Stored>() with the type that says how the matrix is stored.
template <class F>
void visit_stored(const DecodeMatrix& matrix, F&& f) {
  if (!matrix.packed) return f.template operator()<gpu::Bf16Matrix>();
  gpu::visit_packed(*matrix.packed, [&]<PackedFormat kFormat>() {
    f.template operator()<gpu::PackedSkinny<kFormat>>();
  });
}

}  // namespace tephra::zaya1
