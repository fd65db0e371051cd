// SPDX-License-Identifier: Apache-2.0
// What the fused kernels of cca_qk share. A block has one head and walks over tiles of tokens; the
// head's weights stay in its shared memory. Four warps multiply 32 tokens each by all channels.
//
// The weights are permuted so that a thread takes 16 bytes of them at a time, the pairs of terms of
// two products as the matrix units want them, and holds eight neighbouring channels of the result:
// of each 32 thread t of a quad has channels 8t to 8t + 7.
#pragma once

#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/cca_qk.h"
#include "tephra/ops/segment_rows_gpu.h"

namespace tephra::kernel::cca {

using gpu::Bits128;
using Wide = gpu::Floats<gpu::kWide>;

inline constexpr int kDim = 128, kTaps = 2;  // of a head, of either convolution
inline constexpr int kTokens = 128;          // of a tile
inline constexpr int kTileThreads = 128;     // 32 tokens for each warp
inline constexpr int kRowUnits = kDim / 8;   // of 16 bytes
inline constexpr int kWeightUnits = kTaps * kRowUnits;
inline constexpr int kSpareRow = kTokens + 1;  // after the tile's rows and one more
inline constexpr int kTileRows = kTokens + 2;
inline constexpr int kGroups = 4;  // of 32 channels in a head
inline constexpr float kLengthEps = 1.1920929e-7f;

// Where unit `unit` of row `row` lies: of eight rows in a row, and of two neighbours with four
// units each, all meet different banks.
__host__ __device__ inline int swizzled(int row, int unit) {
  return unit ^ (row % 2 * 4 + row / 2 % 4);
}
__device__ inline int place_of(int row, int unit, int units) {
  return row * units + swizzled(row, unit);
}

// Shared memory of a block: the weights as multiply_tile reads them, then rows of a tile.
struct TileMemory {
  Bits128 weights[kDim * kWeightUnits];
  Bits128 rows[kTileRows * kRowUnits];

  __device__ Bits128& row(int r, int unit) { return rows[place_of(r, unit, kRowUnits)]; }
};

__device__ inline Wide unpacked(const Bits128& v) {
  return Wide::of([&](int i) {
    const uint32_t word = v.at[i / 2];
    return __builtin_bit_cast(float, i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  });
}

__device__ inline Bits128 packed(const Wide& v) {
  Bits128 out;
#pragma unroll
  for (int i = 0; i < 4; ++i) out.at[i] = gpu::bf16_pair(v[2 * i], v[2 * i + 1]);
  return out;
}

__device__ inline Bits128 load_bits(const bf16* from) {
  return *reinterpret_cast<const Bits128*>(from);
}

// The channel that row n of the packed weights gives: with it a thread's columns of four
// neighbouring 8-wide products are eight channels in a row.
__host__ __device__ inline int channel_of(int n) {
  const int product = n / 8, column = n % 8;
  return product / 4 * 32 + column / 2 * 8 + product % 4 * 2 + column % 2;
}

// The term that number i of a unit is: thread t of a quad has unit 4q + t, and of it two pairs for
// each of two products of sixteen terms.
__host__ __device__ inline int term_of(int unit, int i) {
  return unit / 4 * 32 + i / 4 * 16 + i / 2 % 2 * 8 + unit % 4 * 2 + i % 2;
}

// weight1 [C, d, 2] as [head][n][256 terms], swizzled. Forward the terms are the channels of u at
// the token before, then at the token; backward those of dy at the token, then at the one after.
struct PackWeights {
  const bf16* weight;
  bool backward;
  bf16* out;

  __device__ void operator()(int64_t row, int64_t at) const {
    const int head = static_cast<int>(row) / kDim, n = static_cast<int>(row) % kDim;
    const int unit = swizzled(n, static_cast<int>(at) / 8), part = unit / kRowUnits;
    const int term = term_of(unit % kRowUnits, static_cast<int>(at) % 8), channel = channel_of(n);
    const int64_t to = backward ? term : channel, from = backward ? channel : term;
    const int tap = backward ? 1 - part : part;
    out[row * kTaps * kDim + at] = weight[((head * kDim + to) * kDim + from) * kTaps + tap];
  }
};

inline Tensor packed_weights(gpu::Stream& stream, const Tensor& weight, bool backward) {
  Tensor out({weight.dim(0), kTaps * kDim}, weight.dtype(), weight.device(), Purpose::workspace);
  gpu::for_each(stream, out.rows(), out.cols(),
                PackWeights{weight.data<bf16>(), backward, out.data<bf16>()});
  return out;
}

__device__ inline void load_weights(TileMemory& m, const bf16* all, int head) {
  const auto* from = reinterpret_cast<const Bits128*>(all) + int64_t{head} * kDim * kWeightUnits;
  for (int i = threadIdx.x; i < kDim * kWeightUnits; i += kTileThreads) m.weights[i] = from[i];
}

// Sums of a thread: of rows slot_row(0) to slot_row(3), of channels 32 g + 8 t and on.
struct TileSums {
  float at[2][16][4];

  __device__ float& of(int slot, int group, int i) {
    return at[slot / 2][4 * group + i / 2][slot % 2 * 2 + i % 2];
  }
  __device__ Wide wide(int slot, int group) {
    return Wide::of([&](int i) { return of(slot, group, i); });
  }
};

// The first of a warp's rows.
__device__ inline int warp_row() { return static_cast<int>(threadIdx.x) / 32 * 32; }

__device__ inline int slot_row(int slot) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return warp_row() + slot * 8 + lane / 4;
}
// The first of a thread's channels in a group.
__device__ inline int group_channel(int group) {
  return 32 * group + static_cast<int>(threadIdx.x) % 4 * 8;
}

// The tile's rows times the weights; row_of(part, r) is the row that stands for token r.
template <class RowOf>
__device__ void multiply_tile(TileMemory& m, RowOf row_of, TileSums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2 * 16 * 4; ++i) sums.at[i / 64][i / 4 % 16][i % 4] = 0;
#pragma unroll
  for (int part = 0; part < kTaps; ++part) {
    const int first = row_of(part, warp_row() + lane % 16);
    const int second = row_of(part, warp_row() + 16 + lane % 16);
#pragma unroll 1
    for (int q = 0; q < kRowUnits / 4; ++q) {
      uint32_t left[2][2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int unit = 4 * q + 2 * half + lane / 16;
        gpu::load_16x16(left[half][0], &m.row(first, unit));
        gpu::load_16x16(left[half][1], &m.row(second, unit));
      }
      const Bits128* weights = m.weights + place_of(g, part * kRowUnits + 4 * q + t, kWeightUnits);
#pragma unroll
      for (int j = 0; j < 16; ++j) {
        const Bits128 b = weights[8 * j * kWeightUnits];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const uint32_t right[2] = {b.at[2 * half], b.at[2 * half + 1]};
          gpu::multiply_16x8x16(sums.at[0][j], left[half][0], right);
          gpu::multiply_16x8x16(sums.at[1][j], left[half][1], right);
        }
      }
    }
  }
}

// The first convolution of eight channels.
struct DepthwiseTaps {
  Wide older, newer, bias;

  __device__ DepthwiseTaps(const bf16* weight, const bf16* biases, int channel)
      : bias(gpu::load<gpu::kWide>(biases + channel)) {
    const Wide first = gpu::load<gpu::kWide>(weight + 2 * channel);
    const Wide second = gpu::load<gpu::kWide>(weight + 2 * channel + gpu::kWide);
    older = Wide::of([&](int i) { return i < 4 ? first[2 * i] : second[2 * i - 8]; });
    newer = Wide::of([&](int i) { return i < 4 ? first[2 * i + 1] : second[2 * i - 7]; });
  }

  // Without the token before where a document begins.
  __device__ Bits128 convolved(const Bits128& before, const Bits128& now, bool begins) const {
    const Wide b = unpacked(before), n = unpacked(now);
    return packed(Wide::of([&](int i) {
      const float sum = begins ? bias[i] : fmaf(older[i], b[i], bias[i]);
      return fmaf(newer[i], n[i], sum);
    }));
  }
};

// Rows of a head's channels of a matrix over tokens; zeros outside of it.
struct HeadRows {
  gpu::Rows<const bf16> rows;
  int64_t tokens;

  __device__ Bits128 at(int64_t t, int channel) const {
    return t >= 0 && t < tokens ? load_bits(rows[t] + channel) : Bits128{};
  }
  // Of the nearest token that there is: where what is made of others is not used.
  __device__ Bits128 near(int64_t t, int channel) const {
    const int there = static_cast<int>(t < tokens ? t : tokens - 1);
    return load_bits(rows[there < 0 ? 0 : there] + channel);
  }
};

// A thread's eight channels of a tile's tokens: sixteen in a row.
inline constexpr int kTokensEach = kTokens / (kTileThreads / kRowUnits);
__device__ inline int own_unit() { return static_cast<int>(threadIdx.x) % kRowUnits; }
__device__ inline int own_row() { return static_cast<int>(threadIdx.x) / kRowUnits * kTokensEach; }

// Of a warp's 32 tokens from `first` on, one for each lane: a bit for those that say yes.
template <class Says>
__device__ uint32_t token_bits(int64_t first, int64_t tokens, Says says) {
  const int64_t t = first + threadIdx.x % 32;
  return gpu::ballot(t < tokens && says(t));
}
// The first `count` rows of the tile become `from` from token t0 on; on their way when this
// returns.
__device__ inline void begin_rows(TileMemory& m, const HeadRows& from, int head, int64_t t0,
                                  int count) {
  const int unit = own_unit(), channel = head * kDim + unit * 8;
#pragma unroll 4
  for (int r = static_cast<int>(threadIdx.x) / kRowUnits; r < count;
       r += kTileThreads / kRowUnits) {
    const int64_t t = t0 + r;
    if (t >= 0 && t < from.tokens) {
      gpu::copy_to_shared(&m.row(r, unit), from.rows[t] + channel);
    } else {
      m.row(r, unit) = Bits128{};
    }
  }
  gpu::close_copies();
}

// Blocks of each head, by the shape alone: two for each multiprocessor of the largest devices.
inline constexpr int64_t kMostBlocks = 26;
inline int64_t blocks_of(int64_t tiles) { return tiles < kMostBlocks ? tiles : kMostBlocks; }

// Of queries their key, of a key its queries: what the mean is made of.
struct Partners {
  int first, count;

  __device__ Partners(int head, int nq, int nk) {
    const int group = nq / nk;
    first = head < nq ? nq + head / group : (head - nq) * group;
    count = head < nq ? 1 : group;
  }
};

// The gradients of both convolutions and of the latents, from dy, that of the second one's output.
void convolution_gradients(gpu::Stream& stream, const CcaQkGrad& k, const Tensor& dy);

}  // namespace tephra::kernel::cca
