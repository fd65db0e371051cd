// SPDX-License-Identifier: Apache-2.0
// The portable matrix product: a block of 256 threads computes a tile of 64 x 64 in f32, from
// operands that functions look up, so that plain, grouped, convolving and attending products are
// one piece of code. Sums run over k in order. Fast paths are compared with this.
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

inline constexpr int kTile = 64;          // rows and columns of a tile
inline constexpr int kTileDepth = 16;     // of the operands in shared memory at a time
inline constexpr int kTileThreads = 256;  // a thread has 4 x 4 elements

struct TileBuffers {
  float a[kTileDepth][kTile + 1];
  float b[kTileDepth][kTile + 1];
};

// The elements of this thread: rows i * 16 + thread_row, columns j * 16 + thread_column.
struct TileSums {
  float at[4][4] = {};

  __device__ static int row(int i) { return i * 16 + static_cast<int>(threadIdx.x) / 16; }
  __device__ static int column(int j) { return j * 16 + static_cast<int>(threadIdx.x) % 16; }

  // f(row, column, value) for each of them.
  template <class F>
  __device__ void each(F&& f) {
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) f(row(i), column(j), at[i][j]);
    }
  }
};

// Elements are looked up along k when they lie so in memory, else across.
template <bool kAlongK, class Load>
__device__ void load_tile(float (&to)[kTileDepth][kTile + 1], int64_t k, int64_t k_end, Load load) {
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kTileDepth; at += kTileThreads) {
    const int depth = kAlongK ? at % kTileDepth : at / kTile;
    const int place = kAlongK ? at / kTileDepth : at % kTile;
    to[depth][place] = k + depth < k_end ? load(place, k + depth) : 0.0f;
  }
}

// sums += sum over k in [k_begin, k_end) of a(row, k) * b(column, k). a and b give zero for rows
// and columns beyond the matrix. All threads of the block take part.
template <bool kAAlongK, bool kBAlongK, class A, class B>
__device__ void multiply_tile(TileBuffers& buffers, int64_t k_begin, int64_t k_end, A a, B b,
                              TileSums& sums) {
  for (int64_t k = k_begin; k < k_end; k += kTileDepth) {
    __syncthreads();  // readers of what the buffers held are done
    load_tile<kAAlongK>(buffers.a, k, k_end, a);
    load_tile<kBAlongK>(buffers.b, k, k_end, b);
    __syncthreads();
#pragma unroll
    for (int depth = 0; depth < kTileDepth; ++depth) {
      float left[4], right[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = buffers.a[depth][TileSums::row(i)];
#pragma unroll
      for (int j = 0; j < 4; ++j) right[j] = buffers.b[depth][TileSums::column(j)];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums.at[i][j] = fmaf(left[i], right[j], sums.at[i][j]);
      }
    }
  }
}

}  // namespace tephra::gpu
