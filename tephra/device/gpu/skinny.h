// SPDX-License-Identifier: Apache-2.0
// Products of few tokens with a large matrix of bf16, bounded by reading it. A block has some rows
// of the matrix and holds them in registers: each of its eight waves an eighth of the columns.
// Tokens pass by sixteen at a time, from wherever they lie. The sum of a token and a row is always
// formed in the same order: over the wave's columns, then over the waves. So it has the same bits
// whatever else is in the batch, and however many rows a block takes.
#pragma once

#include "tephra/base/number.h"
#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

inline constexpr int kSkinnyThreads = 256, kSkinnyWaves = 8;
inline constexpr int kSkinnyTokens = 16, kSkinnyRows = 8;
// Columns that a wave multiplies at once, and columns of the matrix for each such step.
inline constexpr int kSkinnyStep = 32, kSkinnyColumns = kSkinnyWaves * kSkinnyStep;

// Blocks that should find room on a multiprocessor at once, so that some read while others add up;
// `held` is what a thread holds of the matrix, in sixteen bytes.
constexpr int skinny_blocks(int held) { return held <= 8 ? 3 : 2; }

// A thread's place: it has eight columns of row `row` of the matrix, and of tokens `row` and
// `row` + 8.
struct SkinnyLane {
  int wave = static_cast<int>(threadIdx.x) / 32;
  int row = static_cast<int>(threadIdx.x) % 32 / 4;
  int column = static_cast<int>(threadIdx.x) % 4 * 8;
};

// sums += 16 tokens times 8 rows over kSkinnyStep columns. Which term comes when is arranged so
// that a thread's eight columns adjoin in memory.
__device__ inline void multiply_skinny(float (&sums)[4], const Bits128& low, const Bits128& high,
                                       const Bits128& weight) {
#pragma unroll
  for (int s = 0; s < 2; ++s) {
    const uint32_t a[4] = {low.at[2 * s], high.at[2 * s], low.at[2 * s + 1], high.at[2 * s + 1]};
    const uint32_t b[2] = {weight.at[2 * s], weight.at[2 * s + 1]};
    multiply_16x8x16(sums, a, b);
  }
}

// kTiles times kSkinnyRows rows of a matrix of kSteps * kSkinnyColumns columns.
template <int kTiles, int kSteps>
struct SkinnyWeights {
  static constexpr int kDepth = kSteps * kSkinnyColumns;
  Bits128 at[kTiles][kSteps];

  // rows(tile) is where the first row of that tile begins.
  template <class Rows>
  __device__ void fetch(const Rows& rows) {
    const SkinnyLane lane;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const bf16* from = rows(i) + int64_t{lane.row} * kDepth + lane.wave * (kDepth / kSkinnyWaves);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        at[i][s] = load_once(from + s * kSkinnyStep + lane.column);
      }
    }
  }
};

// What the waves found, to be added up.
template <int kTiles>
struct SkinnySums {
  static constexpr int kWidth = kTiles * kSkinnyRows;
  float at[kSkinnyWaves][kSkinnyTokens][kWidth];

  // Of a token and a row of the block, after __syncthreads.
  __device__ float total(int token, int row) const {
    float sum = at[0][token][row];
    for (int w = 1; w < kSkinnyWaves; ++w) sum += at[w][token][row];
    return sum;
  }
};

// tokens(i): where token i < 16 of the group begins, or null where there is none.
template <int kTiles, int kSteps, class Tokens>
__device__ void multiply_tokens(const SkinnyWeights<kTiles, kSteps>& weights, const Tokens& tokens,
                                SkinnySums<kTiles>& sums) {
  const SkinnyLane lane;
  const int first =
      lane.wave * (SkinnyWeights<kTiles, kSteps>::kDepth / kSkinnyWaves) + lane.column;
  const bf16 *low = tokens(lane.row), *high = tokens(lane.row + 8);
  float own[kTiles][4] = {};
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    Bits128 a{}, b{};
    if (low) a = *reinterpret_cast<const Bits128*>(low + first + s * kSkinnyStep);
    if (high) b = *reinterpret_cast<const Bits128*>(high + first + s * kSkinnyStep);
#pragma unroll
    for (int i = 0; i < kTiles; ++i) multiply_skinny(own[i], a, b, weights.at[i][s]);
  }
  const int column = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      sums.at[lane.wave][lane.row + c / 2 * 8][i * kSkinnyRows + column + c % 2] = own[i][c];
    }
  }
}

}  // namespace tephra::gpu
