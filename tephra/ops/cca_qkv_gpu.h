// SPDX-License-Identifier: Apache-2.0
// What the fused kernels of cca_qkv share. A block takes tiles of tokens of one head; the head's
// weights stay in its shared memory meanwhile. Four warps multiply 32 tokens each by all channels.
//
// The weights are permuted so that a thread takes 16 bytes of them at a time, the pairs of terms of
// two products as the matrix units want them, and holds eight neighbouring channels of the result:
// of each 32 thread t of a quad has channels 8t to 8t + 7.
#pragma once

#include "tephra/core/gpu_kernel.h"
#include "tephra/ops/cca_qkv.h"

namespace tephra::kernel::cca {

using gpu::Bits128;
using Wide = gpu::Floats<gpu::kWide>;

inline constexpr int kTaps = 2;                // of either convolution
inline constexpr int kTokens = 128;            // of a tile
inline constexpr int kTileThreads = 128;       // 32 tokens for each warp
inline constexpr int kSpareRow = kTokens + 1;  // after the tile's rows and one more
inline constexpr int kTileRows = kTokens + 2;
inline constexpr float kLengthEps = 1.1920929e-7f;

// Where unit `unit` of row `row` lies: of eight rows in a row, and of two neighbours with four
// units each, all meet different banks.
__device__ inline int place_of(int row, int unit, int units) {
  return row * units + (unit ^ (row % 2 * 4 + row / 2 % 4));
}

// Shared memory of a block: the weights as multiply_tile reads them, then rows of a tile.
template <int kDim>
struct Tile {
  static constexpr int kRowUnits = kDim / 8;  // of 16 bytes
  static constexpr int kWeightUnits = kTaps * kRowUnits;
  static constexpr int kGroups = kDim / 32;  // of 32 channels in a head
  static constexpr int kTokensEach = kTokens / (kTileThreads / kRowUnits);

  Bits128 weights[kDim * kWeightUnits];
  Bits128 rows[kTileRows * kRowUnits];

  __device__ Bits128& row(int r, int unit) { return rows[place_of(r, unit, kRowUnits)]; }
  // A thread's eight channels, and the first of its tokens, which follow each other.
  __device__ static int own_unit() { return static_cast<int>(threadIdx.x) % kRowUnits; }
  __device__ static int own_row() {
    return static_cast<int>(threadIdx.x) / kRowUnits * kTokensEach;
  }
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
__device__ inline uint32_t low_halves(uint32_t a, uint32_t b) { return (a & 0xffffu) | b << 16; }
__device__ inline uint32_t high_halves(uint32_t a, uint32_t b) {
  return a >> 16 | (b & 0xffff0000u);
}

// Where the weights' terms `term` (even) and the next one of a channel lie. Rows are so ordered
// that a thread's columns of four neighbouring 8-wide products are eight channels in a row, and
// units so that thread t of a quad takes unit 4q + t: two pairs of terms for each of two products.
template <int kDim>
__device__ uint32_t& weight_word(Tile<kDim>& m, int channel, int part, int term) {
  const int row = (channel / 32 * 4 + channel % 8 / 2) * 8 + channel % 32 / 8 * 2 + channel % 2;
  const int unit = part * m.kRowUnits + term / 32 * 4 + term % 8 / 2;
  return m.weights[place_of(row, unit, m.kWeightUnits)].at[term / 8 % 4];
}

// weight1 [C, d, 2] of a head, for the products with the first convolution at the token before and
// at the token.
template <int kDim>
__device__ void load_weights(Tile<kDim>& m, const bf16* weight1, int head) {
  constexpr int kUnits = kDim * kTaps / 8;  // of a channel
  const auto* from = reinterpret_cast<const Bits128*>(weight1) + int64_t{head} * kDim * kUnits;
#pragma unroll 16
  for (int i = threadIdx.x; i < kDim * kUnits; i += kTileThreads) {
    const int channel = i / kUnits, term = i % kUnits * 4;
    const Bits128 v = from[i];
#pragma unroll
    for (int k = 0; k < 4; k += 2) {
      weight_word(m, channel, 0, term + k) = low_halves(v.at[k], v.at[k + 1]);
      weight_word(m, channel, 1, term + k) = high_halves(v.at[k], v.at[k + 1]);
    }
  }
}

// The same for the way back: the products with dy at the token and at the one after. A warp has
// sixteen pairs of terms for eight channels at a time: few of its words meet in a bank.
template <int kDim>
__device__ void load_weights_back(Tile<kDim>& m, const bf16* weight1, int head) {
  constexpr int kUnits = kDim * kTaps / 8;
  const auto* from = reinterpret_cast<const Bits128*>(weight1) + int64_t{head} * kDim * kUnits;
#pragma unroll 8
  for (int i = threadIdx.x; i < kDim / 2 * kUnits; i += kTileThreads) {
    const int unit = i / 16 % kUnits, term = i / 16 / kUnits * 32 + i % 16 * 2;
    const Bits128 even = from[term * kUnits + unit], odd = from[(term + 1) * kUnits + unit];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      weight_word(m, 4 * unit + k, 0, term) = high_halves(even.at[k], odd.at[k]);
      weight_word(m, 4 * unit + k, 1, term) = low_halves(even.at[k], odd.at[k]);
    }
  }
}

// Sums of a thread: of rows slot_row(0) to slot_row(3), of channels 32 g + 8 t and on.
template <int kDim>
struct TileSums {
  float at[2][kDim / 8][4];

  __device__ float& of(int slot, int group, int i) {
    return at[slot / 2][4 * group + i / 2][slot % 2 * 2 + i % 2];
  }
  __device__ Wide wide(int slot, int group) {
    return Wide::of([&](int i) { return of(slot, group, i); });
  }
};

// The first of a warp's rows.
__device__ inline int warp_row() { return static_cast<int>(threadIdx.x) / 32 * 32; }
// Which of them is a thread's.
__device__ inline int slot_lane(int slot) {
  return slot * 8 + static_cast<int>(threadIdx.x) % 32 / 4;
}
__device__ inline int slot_row(int slot) { return warp_row() + slot_lane(slot); }
// The first of a thread's channels in a group.
__device__ inline int group_channel(int group) {
  return 32 * group + static_cast<int>(threadIdx.x) % 4 * 8;
}

// The tile's rows times the weights; row_of(part, r) is the row that stands for token r.
template <int kDim, class RowOf>
__device__ void multiply_tile(Tile<kDim>& m, RowOf row_of, TileSums<kDim>& sums) {
  constexpr int kColumns = kDim / 8;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < 2 * kColumns * 4; ++i) {
    sums.at[i / (4 * kColumns)][i / 4 % kColumns][i % 4] = 0;
  }
#pragma unroll
  for (int part = 0; part < kTaps; ++part) {
    const int first = row_of(part, warp_row() + lane % 16);
    const int second = row_of(part, warp_row() + 16 + lane % 16);
#pragma unroll 1
    for (int q = 0; q < m.kRowUnits / 4; ++q) {
      uint32_t left[2][2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int unit = 4 * q + 2 * half + lane / 16;
        gpu::load_16x16(left[half][0], &m.row(first, unit));
        gpu::load_16x16(left[half][1], &m.row(second, unit));
      }
      const Bits128* weights =
          m.weights + place_of(g, part * m.kRowUnits + 4 * q + t, m.kWeightUnits);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const Bits128 b = weights[8 * j * m.kWeightUnits];
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
  int tokens;

  __device__ Bits128 at(int t, int channel) const {
    return t >= 0 && t < tokens ? load_bits(rows[t] + channel) : Bits128{};
  }
  // Of the nearest token that there is: where what is made of others is not used.
  __device__ Bits128 near(int t, int channel) const {
    const int there = t < tokens ? t : tokens - 1;
    return load_bits(rows[there < 0 ? 0 : there] + channel);
  }
};

// Of a warp's 32 tokens from `first` on, one for each lane: a bit for those that say yes.
template <class Says>
__device__ uint32_t token_bits(int first, int tokens, Says says) {
  const int t = first + static_cast<int>(threadIdx.x) % 32;
  return gpu::ballot(t < tokens && says(t));
}

// The first `count` rows of the tile become `from` from token t0 on; on their way when this
// returns.
template <int kDim>
__device__ void begin_rows(Tile<kDim>& m, const HeadRows& from, int head, int t0, int count) {
  const int unit = m.own_unit(), channel = head * kDim + unit * 8;
#pragma unroll 4
  for (int r = static_cast<int>(threadIdx.x) / m.kRowUnits; r < count;
       r += kTileThreads / m.kRowUnits) {
    const int t = t0 + r;
    if (t >= 0 && t < from.tokens) {
      gpu::copy_to_shared(&m.row(r, unit), from.rows[t] + channel);
    } else {
      m.row(r, unit) = Bits128{};
    }
  }
  gpu::close_copies();
}

// Tiles that a block takes in a row, by the shape alone: with so many blocks for each head there
// are two for each multiprocessor of the largest devices.
inline constexpr int64_t kMostBlocks = 26;
inline int64_t tiles_each(int64_t tiles) { return gpu::blocks_for(tiles, kMostBlocks); }

// Of queries their key, of a key its queries: what the mean is made of.
struct Partners {
  int first, count;

  __device__ Partners(int head, int nq, int nk) {
    const int group = nq / nk;
    first = head < nq ? nq + head / group : (head - nq) * group;
    count = head < nq ? 1 : group;
  }
};

// Columns of values, of which the second half moves by a token: ahead in its document, and
// gradients back.
struct ValueRows {
  gpu::Rows<const bf16> from;
  gpu::Rows<bf16> to;
  const int32_t*
      bound;  // the first row of a token's document; of gradients, the row after its last
  int half;
  bool accumulate;

  template <bool kGrad>
  __device__ Bits128 at(int t, int column) const {
    if (column < half) return load_bits(from[t] + column);
    if (kGrad ? t + 1 < bound[t] : t > bound[t])
      return load_bits(from[kGrad ? t + 1 : t - 1] + column);
    return {};
  }
};

// Those of tokens [begin, end), by a block of kTileThreads.
template <bool kGrad>
__device__ void shift_values(const ValueRows& v, int begin, int end) {
  constexpr int kAhead = 4;
  const int units = v.half / 4, count = (end - begin) * units;
  for (int i = threadIdx.x; i < count; i += kAhead * kTileThreads) {
    Bits128 moved[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int at = i + k * kTileThreads;
      if (at < count) moved[k] = v.at<kGrad>(begin + at / units, at % units * 8);
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int at = i + k * kTileThreads;
      if (at < count)
        gpu::write(v.to[begin + at / units] + at % units * 8, unpacked(moved[k]), v.accumulate);
    }
  }
}

}  // namespace tephra::kernel::cca
