// SPDX-License-Identifier: Apache-2.0
// What a block of decode_pass_cuda.cu has in shared memory, rows of the matrices above all, and how
// they are multiplied with the token.
#pragma once

#include "tephra/device/gpu/skinny_stream.h"
#include "tephra/models/zaya1/decode_pass_plan_cuda.h"

namespace tephra::zaya1 {

// The matrices of a layer that a block has rows of. Each comes in kPassPieces.
enum PassMatrix { kFirst, kOut, kGate, kUp, kDown, kPassMatrices };
inline constexpr int kPassPieces = 8;

// What the multiplying threads have read, all of them: its room is free for others.
enum PassRead {
  kFirstRead,  // projections; nothing where there are none
  kKeysRead,
  kOutRead,
  kNarrowRead,
  kUpRead,  // and gate, of each expert that came
  kDownRead,
  kPassReads
};

// Rows of a matrix that is not packed, in the L2 cache when they are asked for.
template <class Piece, int kRows>
__device__ void prefetch_pass_rows(const void* matrix, int64_t row, int piece) {
  gpu::hopper::prefetch_bytes(
      static_cast<const std::byte*>(matrix) + (row + piece * kRows) * Piece::kRowBytes,
      kRows * Piece::kRowBytes);
}

// Rows of a matrix that is not packed.
template <class Piece, int kRows>
__device__ void ask_pass_rows(std::byte* room, const void* matrix, int64_t row, int piece,
                              uint64_t* arrived) {
  const auto* from = static_cast<const std::byte*>(matrix) + row * Piece::kRowBytes;
  gpu::hopper::expect_bytes(arrived, kRows * Piece::kRowBytes);
#pragma unroll
  for (int r = piece * kRows; r < (piece + 1) * kRows; ++r) {
    gpu::hopper::copy_once(room + r * Piece::kStride, from + r * Piece::kRowBytes, arrived,
                           Piece::kRowBytes);
  }
}

// Sixteen rows of a matrix in shared memory.
template <class Stored, int kSteps>
struct PassPanel {
  using Piece = gpu::hopper::SkinnyPiece<Stored, kSteps>;
  static constexpr int kPieces = kPanelTiles / Piece::kTiles;
  static constexpr int kBytes = kPieces * Piece::kBytes;
  std::byte* room;

  // One of kPassPieces, by one thread.
  __device__ void ask(const void* matrix, int64_t row, int piece, uint64_t* arrived) const {
    if constexpr (Stored::kPacked) {
      constexpr int kPart = kBytes / kPassPieces;
      static_assert(kPieces == 1 && kPart % 16 == 0);
      const typename Piece::Panels panels{static_cast<const std::byte*>(matrix), Piece::kGroups};
      gpu::hopper::expect_bytes(arrived, kPart);
      gpu::hopper::copy_once(room + piece * kPart, panels.panel(row) + piece * kPart, arrived,
                             kPart);
    } else {
      ask_pass_rows<Piece, kPanelRows / kPassPieces>(room, matrix, row, piece, arrived);
    }
  }
  // wait(piece) for the pieces that a lane reads of; where any lane may read of all, the wave
  // shares them out and meets.
  template <class Wait>
  __device__ static void await(const Wait& wait) {
    if constexpr (Stored::kPacked) {
      wait(static_cast<int>(threadIdx.x) % kPassPieces);
    } else {
#pragma unroll
      for (int i = 0; i < kPanelTiles; ++i) {
        wait((gpu::SkinnyLane().row + i * gpu::kSkinnyRows) * kPassPieces / kPanelRows);
      }
    }
    __syncwarp();
  }
  __device__ static void prefetch(const void* matrix, int64_t row, int piece) {
    if constexpr (Stored::kPacked) {
      constexpr int kPart = kBytes / kPassPieces;
      const typename Piece::Panels panels{static_cast<const std::byte*>(matrix), Piece::kGroups};
      gpu::hopper::prefetch_bytes(panels.panel(row) + piece * kPart, kPart);
    } else {
      prefetch_pass_rows<Piece, kPanelRows / kPassPieces>(matrix, row, piece);
    }
  }
  __device__ gpu::Bits128 at(int tile, int step) const {
    return Piece{room + tile / Piece::kTiles * Piece::kBytes}.at(tile % Piece::kTiles, step);
  }
};

// The router's narrow projection: eight rows.
struct PassNarrow {
  using Piece = gpu::hopper::SkinnyPiece<gpu::Bf16Matrix, kWidthSteps>;
  std::byte* room;

  __device__ void ask(const void* matrix, int64_t row, int piece, uint64_t* arrived) const {
    ask_pass_rows<Piece, gpu::kSkinnyRows / kPassPieces>(room, matrix, row, piece, arrived);
  }
  template <class Wait>
  __device__ static void await(const Wait& wait) {
    static_assert(kPassPieces == gpu::kSkinnyRows);
    wait(gpu::SkinnyLane().row);
    __syncwarp();
  }
  __device__ static void prefetch(const void* matrix, int64_t row, int piece) {
    prefetch_pass_rows<Piece, gpu::kSkinnyRows / kPassPieces>(matrix, row, piece);
  }
  __device__ gpu::Bits128 at(int, int step) const { return Piece{room}.at(0, step); }
};

// Where in the sums a product's are. Those after each other without a barrier between have places
// of their own.
enum PassSums {
  kSumsAt = 0,
  kUpSumsAt = kPanelRows,
  kDownSumsAt = 2 * kPanelRows,
  kNarrowSumsAt = 3 * kPanelRows,
  kPassSums = kNarrowSumsAt + gpu::kSkinnyRows
};

template <class Stored>
struct PassShared {
  using Wide = PassPanel<Stored, kWidthSteps>;
  using Out = PassPanel<Stored, kQuerySteps>;
  static constexpr int kNarrow = PassNarrow::Piece::kBytes;

  // Projections, then gate of the expert. Where nothing is projected: the narrow projection, then
  // down, since that is the last to be needed.
  alignas(128) std::byte first[Wide::kBytes > kNarrow ? Wide::kBytes : kNarrow];
  // The way back, then up, whose later half need not wait for it.
  static constexpr int kUpAt = Out::kBytes - Wide::kBytes / 2;
  alignas(128) std::byte out[kUpAt + Wide::kBytes];
  // Keys and values, then down; where nothing is projected, gate.
  union {
    alignas(128) std::byte last[Wide::kBytes];
    DecodeAttentionShared attention;
  };
  DecodeAttention at[2];  // of this layer and the next
  union {
    struct {
      alignas(16) bf16 normed[kPassWidth], activated[kPassWidth];
    };
    float row[kPassWidth];  // on its way to be normed
  };
  alignas(16) bf16 attended[kPassQueries];
  alignas(16) bf16 taps[2][kTapsWidth];
  alignas(16) bf16 latents[kPassGroup + 1][kHeadDim], convolved[kPassGroup + 1][kHeadDim];
  float sums[gpu::kSkinnyWaves][kPassSums];
  float squares[gpu::kSkinnyWaves];
  uint64_t arrived[kPassMatrices][kPassPieces];
  uint64_t read[kPassReads];
  uint64_t told;  // the choice
  int guessed, chosen;
  float weight;
};

// The token at hand, in the registers of those that multiply it.
template <int kSteps>
struct PassToken {
  gpu::Bits128 at[kSteps];

  __device__ explicit PassToken(const bf16* token) {
    const gpu::SkinnyLane lane;
    const int first = lane.wave * (kSteps * gpu::kSkinnyStep) + lane.column;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      at[s] = {};
      if (lane.row == 0) {
        at[s] = *reinterpret_cast<const gpu::Bits128*>(token + first + s * gpu::kSkinnyStep);
      }
    }
  }
};

// What a wave finds of eight times kTiles rows, from `first` on in the sums.
template <int kTiles, int kSteps, class Weights, class Sums>
__device__ void multiply_token(const Weights& weights, const PassToken<kSteps>& token, Sums& sums,
                               int first = 0) {
  const gpu::SkinnyLane lane;
  float own[kTiles][4] = {};
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      gpu::multiply_skinny(own[i], token.at[s], gpu::Bits128{}, weights.at(i, s));
    }
  }
  if (lane.row > 0) return;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    float* to = &sums[lane.wave][first + i * gpu::kSkinnyRows + lane.column / 4];
    to[0] = own[i][0];
    to[1] = own[i][1];
  }
}

template <class Sums>
__device__ float total(const Sums& sums, int row) {
  float sum = sums[0][row];
#pragma unroll
  for (int w = 1; w < gpu::kSkinnyWaves; ++w) sum += sums[w][row];
  return sum;
}

}  // namespace tephra::zaya1
