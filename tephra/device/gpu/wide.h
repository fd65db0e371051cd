// SPDX-License-Identifier: Apache-2.0
// Products of 32 or 64 tokens with 64 or 128 rows of a matrix on Hopper, both from shared memory
// where the copy engine put them, so that neither is read more often than it must. The sum of a
// token and a row is formed in the order of skinny.h, so it has the same bits.
#pragma once

#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/skinny.h"

namespace tephra::gpu::hopper {

inline constexpr int kWideColumns = 64;  // of a chunk: rows of 128 bytes with the 128-byte swizzle
inline constexpr int kWideSplits = kSkinnyWaves;  // ranges of columns whose sums are added in order

template <int kTokens, int kRows>
struct WideChunk {
  alignas(1024) std::byte rows[kRows * kWideColumns * 2];
  alignas(1024) std::byte tokens[kTokens * kWideColumns * 2];
};

// What a kernel has in shared memory, at a multiple of 1,024 bytes as swizzled boxes want it.
template <class T>
__device__ T& aligned_shared(Bits128* room) {
  auto* bytes = reinterpret_cast<std::byte*>(room);
  return *reinterpret_cast<T*>(bytes + (1024 - shared_address(bytes) % 1024) % 1024);
}
template <class T>
inline constexpr int64_t kAlignedBytes = sizeof(T) + 1024;

// Which of eight rows a thread's is: the swizzle puts those of neighbours on different banks.
__device__ constexpr int wide_place(int g) { return g / 2 + g % 2 * 4; }

// A thread's eight columns of a row of swizzled rows of 128 bytes, in the lower or upper half.
__device__ inline Bits128 read_wide(const std::byte* from, int row, int half) {
  const int unit = half * 4 + static_cast<int>(threadIdx.x) % 4;
  return *reinterpret_cast<const Bits128*>(unit_of(from, row, unit));
}

// A thread's columns of two rows, as products of warpgroups want them in registers: sixteen columns
// a step, those that multiply_skinny takes at once.
struct WideSteps {
  static constexpr int kCount = kWideColumns / 16;
  uint32_t at[kCount][4];

  // Rows of this number from `low` and from `high`.
  __device__ WideSteps(const std::byte* low, const std::byte* high, int row) {
#pragma unroll
    for (int h = 0; h < kCount / 2; ++h) {
      const Bits128 of_low = read_wide(low, row, h), of_high = read_wide(high, row, h);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        at[2 * h + s][0] = of_low.at[2 * s];
        at[2 * h + s][1] = of_high.at[2 * s];
        at[2 * h + s][2] = of_low.at[2 * s + 1];
        at[2 * h + s][3] = of_high.at[2 * s + 1];
      }
    }
#pragma unroll
    for (auto& step : at) pin(step);
  }
};

// The sums of a block of eight waves.
template <int kTokens, int kRows>
class WideSums {
 public:
  __device__ WideSums() {
    const int wave = static_cast<int>(threadIdx.x) / 32;
    first_token_ = wave % kTokenWaves * (kM * 16) + wide_place(g_);
    first_row_ = wave / kTokenWaves * (kN * 8);
    clear();
  }

  __device__ void clear() {
    each_own([](float& own, float&) { own = 0; });
  }

  __device__ void multiply(const WideChunk<kTokens, kRows>& chunk) {
#pragma unroll
    for (int h = 0; h < kWideColumns / kSkinnyStep; ++h) {
      Bits128 rows[kN];
#pragma unroll
      for (int n = 0; n < kN; ++n)
        rows[n] = read_wide(chunk.rows, first_row_ + n * 8 + wide_place(g_), h);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const Bits128 low = read_wide(chunk.tokens, first_token_ + m * 16, h);
        const Bits128 high = read_wide(chunk.tokens, first_token_ + m * 16 + 8, h);
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

  // f(token, row, sum over all ranges, which of the thread's).
  static constexpr int kEach = kTokens * kRows / kSkinnyThreads;
  template <class F>
  __device__ void each(const F& f) const {
    const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          f(first_token_ + m * 16 + c / 2 * 8, first_row_ + n * 8 + wide_place(pair + c % 2),
            total_[m][n][c], (m * kN + n) * 4 + c);
        }
      }
    }
  }

 private:
  static constexpr int kTokenWaves = kTokens >= 64 || kRows < 128 ? 2 : 1;
  static constexpr int kRowWaves = kSkinnyWaves / kTokenWaves;
  static constexpr int kM = kTokens / kTokenWaves / 16, kN = kRows / kRowWaves / 8;
  using Sums = float[kM][kN][4];

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
