// SPDX-License-Identifier: Apache-2.0
// The vendors' matrix units under one name: a wave multiplies pieces of sixteen rows by sixteen
// terms of bf16 and sums in f32. How a piece and its sums lie over the lanes is each vendor's own;
// kernels ask for it. Included by *.cu alone.
#pragma once

#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

#if defined(__HIP__)
inline constexpr int kMatrixWave = 64;  // lanes, of CDNA
#else
inline constexpr int kMatrixWave = 32;
#endif

// Sixteen rows of sixteen terms.
struct Piece {
  uint32_t at[128 / kMatrixWave];
};

// Sixteen rows by sixteen columns.
struct PieceSums {
  static constexpr int kCount = 256 / kMatrixWave;
  float at[kCount] = {};

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kMatrixWave; }
#if defined(__HIP__)
  // A lane has four rows of a column.
  __device__ static int row(int i) { return lane() / 16 * 4 + i; }
  __device__ static int column(int) { return lane() % 16; }
#else
  // As multiply_16x8x16 leaves them, the left half of the columns first.
  __device__ static int row(int i) { return i / 2 % 2 * 8 + lane() / 4; }
  __device__ static int column(int i) { return i / 4 * 8 + lane() % 4 * 2 + i % 2; }
#endif
};

// From shared memory: the first row, each on sixteen bytes and `stride` numbers from the last.
__device__ inline Piece load_piece(const uint16_t* rows, int stride) {
  const int lane = PieceSums::lane();
  Piece p;
#if defined(__HIP__)
  const auto* four = reinterpret_cast<const uint32_t*>(rows + lane % 16 * stride + lane / 16 * 4);
  p.at[0] = four[0];
  p.at[1] = four[1];
#else
  load_16x16(p.at, reinterpret_cast<const Bits128*>(rows + lane % 16 * stride + lane / 16 * 8));
#endif
  return p;
}

// sums += a b^T: b's rows are columns of the result.
__device__ inline void multiply_pieces(PieceSums& sums, const Piece& a, const Piece& b) {
#if defined(__HIP__)
#if defined(__HIP_DEVICE_COMPILE__)
  using Terms = short __attribute__((vector_size(8)));
  using Four = float __attribute__((vector_size(16)));
  sums =
      __builtin_bit_cast(PieceSums, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(
                                        __builtin_bit_cast(Terms, a), __builtin_bit_cast(Terms, b),
                                        __builtin_bit_cast(Four, sums), 0, 0, 0));
#endif
#else
  auto& halves = reinterpret_cast<float(&)[2][4]>(sums.at);
  const uint32_t left[2] = {b.at[0], b.at[2]}, right[2] = {b.at[1], b.at[3]};
  multiply_16x8x16(halves[0], a.at, left);
  multiply_16x8x16(halves[1], a.at, right);
#endif
}

}  // namespace tephra::gpu
