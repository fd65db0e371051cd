// SPDX-License-Identifier: Apache-2.0
// The portable matrix product: a block of 256 threads computes a square tile, from operands that
// say where their lines lie, so that plain, grouped and attending products are one piece of code.
// f32 is multiplied in f32, sums over k in order; bf16 on the matrix units of any vendor, sums in
// f32 in one order. Fast paths are compared with this.
#pragma once

#include <type_traits>

#include "tephra/device/gpu/matrix_units.h"
#include "tephra/device/gpu/platform.h"

namespace tephra::gpu {

inline constexpr int kTileThreads = 256;

// --- operands ---------------------------------------------------------------------------------

// A matrix of rows of terms in memory, whose lines are its rows (kAlong), or its terms. line(i) is
// where line i begins, null where there is none: zeros, as is what lies behind `width` numbers.
template <bool kAlongTerms, class Line>
struct Lines {
  static constexpr bool kAlong = kAlongTerms;
  Line line;
  int64_t width;
  bool wide;  // lines are on 16 bytes, in bf16

  __device__ float at(int64_t row, int64_t term) const {
    const int64_t i = kAlong ? row : term, j = kAlong ? term : row;
    const auto* from = j < width ? line(i) : nullptr;
    return from ? float(from[j]) : 0.0f;
  }
  // Eight numbers of bf16 of a line, from the j-th on.
  __device__ Bits128 eight(int64_t i, int64_t j) const {
    const auto* from = j < width ? line(i) : nullptr;
    if (!from) return {};
    if (wide && j + 8 <= width) return *reinterpret_cast<const Bits128*>(from + j);
    Bits128 v{};
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      if (j + k < width) v.at[k / 2] |= uint32_t{from[j + k].bits} << (k % 2 * 16);
    }
    return v;
  }
};

template <class Line>
__device__ Lines<true, Line> along_terms(Line line, int64_t terms, bool wide) {
  return {line, terms, wide};
}
template <class Line>
__device__ Lines<false, Line> across_terms(Line line, int64_t rows, bool wide) {
  return {line, rows, wide};
}

// A square of f32 in shared memory, as it is or transposed; rounded where bf16 is multiplied.
template <bool kTransposed, int kStride>
struct Square {
  static constexpr bool kAlong = !kTransposed;
  const float (*from)[kStride];

  __device__ float at(int64_t row, int64_t term) const {
    return kTransposed ? from[term][row] : from[row][term];
  }
  __device__ Bits128 eight(int64_t i, int64_t j) const {
    Bits128 v;
#pragma unroll
    for (int k = 0; k < 4; ++k) v.at[k] = bf16_pair(from[i][j + 2 * k], from[i][j + 2 * k + 1]);
    return v;
  }
};

// --- products ---------------------------------------------------------------------------------

// sums += sum over k in [begin, end) of a(row, k) * b(column, k), by all threads of a block. Where
// an operand's lines run along the terms they end there, too; those that are wide begin at a
// multiple of eight. A Square is whole, for all threads, before it is multiplied.
template <class T, int kTileSide>
struct TileProduct;

template <int kTileSide>
struct TileProduct<float, kTileSide> {
  static constexpr int kSide = kTileSide, kDepth = 16, kEach = kSide / 16;

  struct Buffers {
    float a[kDepth][kSide + 1], b[kDepth][kSide + 1];
  };

  // Of this thread: every sixteenth row and column.
  struct Sums {
    float at[kEach][kEach] = {};

    __device__ static int row(int i) { return i * 16 + static_cast<int>(threadIdx.x) / 16; }
    __device__ static int column(int j) { return j * 16 + static_cast<int>(threadIdx.x) % 16; }
    // f(row, column, sum) for each of them.
    template <class F>
    __device__ void each(F&& f) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) f(row(i), column(j), at[i][j]);
      }
    }
  };

  template <class A, class B>
  __device__ static void multiply(Buffers& s, int64_t begin, int64_t end, const A& a, const B& b,
                                  Sums& sums) {
    for (int64_t k = begin; k < end; k += kDepth) {
      __syncthreads();  // readers of what the buffers held are done
      fill(s.a, k, end, a);
      fill(s.b, k, end, b);
      __syncthreads();
#pragma unroll
      for (int depth = 0; depth < kDepth; ++depth) {
        float left[kEach], right[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) left[i] = s.a[depth][Sums::row(i)];
#pragma unroll
        for (int j = 0; j < kEach; ++j) right[j] = s.b[depth][Sums::column(j)];
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
#pragma unroll
          for (int j = 0; j < kEach; ++j) sums.at[i][j] = fmaf(left[i], right[j], sums.at[i][j]);
        }
      }
    }
  }

 private:
  // Neighbouring threads look up what are neighbours in memory.
  template <class Operand>
  __device__ static void fill(float (&to)[kDepth][kSide + 1], int64_t k, int64_t end,
                              const Operand& from) {
    for (int at = static_cast<int>(threadIdx.x); at < kSide * kDepth; at += kTileThreads) {
      const int depth = Operand::kAlong ? at % kDepth : at / kSide;
      const int place = Operand::kAlong ? at / kDepth : at % kSide;
      to[depth][place] = k + depth < end ? from.at(place, k + depth) : 0.0f;
    }
  }
};

// While one stage is multiplied the next is on its way through registers. In shared memory both
// operands are rows of terms, so long that eight rows meet different banks.
template <int kTileSide>
struct TileProduct<bf16, kTileSide> {
  static constexpr int kSide = kTileSide, kDepth = 32, kStride = kDepth + 8;
  static constexpr int kWavesDown = 2, kWavesAcross = kTileThreads / kMatrixWave / kWavesDown;
  static constexpr int kRows = kSide / kWavesDown, kColumns = kSide / kWavesAcross;  // of a wave

  static constexpr int kStages = kSharedIsLarge ? 2 : 1;  // of one, three blocks find room
  struct Buffers {
    alignas(16) uint16_t a[kStages][kSide * kStride], b[kStages][kSide * kStride];
  };

  // Of this thread: its share of its wave's pieces.
  struct Sums {
    PieceSums at[kRows / 16][kColumns / 16];

    __device__ static int wave() { return static_cast<int>(threadIdx.x) / kMatrixWave; }
    __device__ static int row() { return wave() % kWavesDown * kRows; }
    __device__ static int column() { return wave() / kWavesDown * kColumns; }
    template <class F>
    __device__ void each(F&& f) {
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i) {
#pragma unroll
        for (int j = 0; j < kColumns / 16; ++j) {
#pragma unroll
          for (int e = 0; e < PieceSums::kCount; ++e) {
            f(row() + 16 * i + PieceSums::row(e), column() + 16 * j + PieceSums::column(e),
              at[i][j].at[e]);
          }
        }
      }
    }
  };

  template <class A, class B>
  __device__ static void multiply(Buffers& s, int64_t begin, int64_t end, const A& a, const B& b,
                                  Sums& sums) {
    Fetched<A> left;
    Fetched<B> right;
    int stage = 0;
    left.fetch(a, begin, end);
    right.fetch(b, begin, end);
    __syncthreads();  // readers of what the buffers held are done
    left.put(s.a[stage]);
    right.put(s.b[stage]);
    __syncthreads();
    for (int64_t k = begin; k < end; k += kDepth) {
      const bool more = k + kDepth < end;
      if (more) {
        left.fetch(a, k + kDepth, end);
        right.fetch(b, k + kDepth, end);
      }
      multiply_stage(s.a[stage], s.b[stage], sums);
      if (!more) return;
      stage = (stage + 1) % kStages;
      if (kStages == 1) __syncthreads();
      left.put(s.a[stage]);
      right.put(s.b[stage]);
      __syncthreads();
    }
  }

 private:
  // A thread's share of an operand's stage: eight terms of a row at a time where these are
  // neighbours in memory, else eight rows of two terms.
  template <class Operand>
  struct Fetched {
    static constexpr bool kAlong = Operand::kAlong;
    static constexpr int kAcross = kAlong ? kDepth / 8 : kDepth / 2;  // neighbouring threads
    static constexpr int kUnits = (kAlong ? kSide : kSide / 8) * kAcross;
    static constexpr int kEach = (kUnits + kTileThreads - 1) / kTileThreads;
    Bits128 at[kEach][kAlong ? 1 : 2];

    // f(i, unit) for each of this thread's.
    template <class F>
    __device__ static void each(F f) {
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int unit = static_cast<int>(threadIdx.x) + i * kTileThreads;
        if (kUnits % kTileThreads == 0 || unit < kUnits) f(i, unit);
      }
    }
    __device__ void fetch(const Operand& from, int64_t k, int64_t end) {
      each([&](int i, int unit) {
        if constexpr (kAlong) {
          at[i][0] = from.eight(unit / kAcross, k + unit % kAcross * 8);
        } else {
#pragma unroll
          for (int odd = 0; odd < 2; ++odd) {
            const int64_t term = k + unit % kAcross * 2 + odd;
            at[i][odd] = term < end ? from.eight(term, unit / kAcross * 8) : Bits128{};
          }
        }
      });
    }
    __device__ void put(uint16_t* to) const {
      each([&](int i, int unit) {
        if constexpr (kAlong) {
          uint16_t* row = to + unit / kAcross * kStride;
          *reinterpret_cast<Bits128*>(row + unit % kAcross * 8) = at[i][0];
        } else {
#pragma unroll
          for (int r = 0; r < 8; ++r) {
            const uint32_t even = at[i][0].at[r / 2], odd = at[i][1].at[r / 2];
            uint16_t* row = to + (unit / kAcross * 8 + r) * kStride;
            *reinterpret_cast<uint32_t*>(row + unit % kAcross * 2) =
                r % 2 == 0 ? (even & 0xffffu) | odd << 16 : even >> 16 | (odd & 0xffff0000u);
          }
        }
      });
    }
  };

  __device__ static void multiply_stage(const uint16_t* a, const uint16_t* b, Sums& sums) {
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      Piece left[kRows / 16];
#pragma unroll
      for (int i = 0; i < kRows / 16; ++i) {
        left[i] = load_piece(a + (Sums::row() + 16 * i) * kStride + k, kStride);
      }
#pragma unroll
      for (int j = 0; j < kColumns / 16; ++j) {
        const Piece right = load_piece(b + (Sums::column() + 16 * j) * kStride + k, kStride);
#pragma unroll
        for (int i = 0; i < kRows / 16; ++i) multiply_pieces(sums.at[i][j], left[i], right);
      }
    }
  }
};

// As large as products want their tiles.
template <class T>
using LargeTile = TileProduct<T, std::is_same_v<T, bf16> ? 128 : 64>;

}  // namespace tephra::gpu
