// SPDX-License-Identifier: Apache-2.0
// Products of 32 to 128 tokens with 128 rows of a matrix on Hopper, both from shared memory where
// the copy engine put them, so that neither is read more often than it must. The sum of a token and
// a row is formed in the order of skinny.h, so it has the same bits.
#pragma once

#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/skinny.h"

namespace tephra::gpu::hopper {

inline constexpr int kWideRows = 128;    // of the matrix
inline constexpr int kWideColumns = 64;  // of a chunk: rows of 128 bytes with the 128-byte swizzle
inline constexpr int kWideSplits = kSkinnyWaves;  // ranges of columns whose sums are added in order

template <int kTokens>
struct WideChunk {
  alignas(1024) std::byte rows[kWideRows * kWideColumns * 2];
  alignas(1024) std::byte tokens[kTokens * kWideColumns * 2];
};

// The sums of a block of eight waves.
template <int kTokens>
class WideSums {
 public:
  __device__ WideSums() {
    const int wave = static_cast<int>(threadIdx.x) / 32;
    first_token_ = wave % kTokenWaves * (kM * 16) + place(g_);
    first_row_ = wave / kTokenWaves * (kN * 8);
    clear();
  }

  __device__ void clear() {
    each_own([](float& own, float&) { own = 0; });
  }

  __device__ void multiply(const WideChunk<kTokens>& chunk) {
#pragma unroll
    for (int h = 0; h < kWideColumns / kSkinnyStep; ++h) {
      Bits128 rows[kN];
#pragma unroll
      for (int n = 0; n < kN; ++n) rows[n] = read(chunk.rows, first_row_ + n * 8 + place(g_), h);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const Bits128 low = read(chunk.tokens, first_token_ + m * 16, h);
        const Bits128 high = read(chunk.tokens, first_token_ + m * 16 + 8, h);
#pragma unroll
        for (int n = 0; n < kN; ++n) multiply_skinny(own_[m][n], low, high, rows[n]);
      }
    }
  }

  // A range of columns has ended: its sums join those of the ranges before it.
  __device__ void end_range(bool first) {
    each_own([first](float& own, float& total) {
      total = first ? own : total + own;
      own = 0;
    });
  }

  // f(token, row, sum) over all ranges.
  template <class F>
  __device__ void each(const F& f) const {
    const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          f(first_token_ + m * 16 + c / 2 * 8, first_row_ + n * 8 + place(pair + c % 2),
            total_[m][n][c]);
        }
      }
    }
  }

 private:
  static constexpr int kTokenWaves = kTokens >= 64 ? 2 : 1;
  static constexpr int kRowWaves = kSkinnyWaves / kTokenWaves;
  static constexpr int kM = kTokens / kTokenWaves / 16, kN = kWideRows / kRowWaves / 8;
  using Sums = float[kM][kN][4];

  // Which of eight rows a thread's is: the swizzle puts those of neighbours on different banks.
  __device__ static constexpr int place(int g) { return g / 2 + g % 2 * 4; }
  __device__ static Bits128 read(const std::byte* from, int row, int half) {
    const int unit = half * 4 + static_cast<int>(threadIdx.x) % 4;
    return *reinterpret_cast<const Bits128*>(from + row * 128 + (unit ^ row % 8) * 16);
  }
  template <class F>
  __device__ void each_own(const F& f) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) f(own_[m][n][c], total_[m][n][c]);
      }
    }
  }
  int g_ = static_cast<int>(threadIdx.x) % 32 / 4;
  int first_token_, first_row_;
  Sums own_, total_;
};

}  // namespace tephra::gpu::hopper
