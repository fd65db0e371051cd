// SPDX-License-Identifier: Apache-2.0
// Products of few tokens with a large matrix on Hopper: pieces of the matrix come by the copy
// engine through a ring in shared memory, so that far more bytes are on their way than registers
// could hold. What is multiplied, and in which order, is that of skinny.h: the same bits.
#pragma once

#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/skinny.h"

namespace tephra::gpu::hopper {

// Bytes of a matrix that is read once: they are the first to leave the L2 cache again, so that what
// blocks tell each other stays there.
__device__ inline void copy_once(void* to, const void* from, uint64_t* barrier, uint32_t bytes) {
  asm volatile(
      "{\n"
      ".reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], policy;\n"
      "}\n" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// Some rows of a matrix of kSteps * kSkinnyColumns columns in shared memory: kTiles times
// kSkinnyRows of them.
template <class Stored, int kSteps>
struct SkinnyPiece;

template <int kSteps>
struct SkinnyPiece<Bf16Matrix, kSteps> {
  static constexpr int kTiles = 1;
  static constexpr int kRowBytes = kSteps * kSkinnyColumns * 2;
  static constexpr int kStride = kRowBytes + 64;  // a wave's reads fall on different banks
  static constexpr int kBytes = kSkinnyRows * kStride;

  const std::byte* data;

  // Asked for by all waves of a block, by each a part; `arrived` counts the bytes.
  __device__ static void ask(std::byte* to, const void* matrix, int64_t row, uint64_t* arrived) {
    static_assert(kSkinnyWaves == kSkinnyRows, "a wave asks for a row");
    if (threadIdx.x % 32 != 0) return;
    const int wave = static_cast<int>(threadIdx.x) / 32;
    if (wave == 0) expect_bytes(arrived, kSkinnyRows * kRowBytes);
    const std::byte* from = static_cast<const std::byte*>(matrix) + (row + wave) * kRowBytes;
    copy_once(to + wave * kStride, from, arrived, kRowBytes);
  }
  __device__ Bits128 at(int, int step) const {
    const SkinnyLane lane;
    const int column = (lane.wave * kSteps + step) * kSkinnyStep + lane.column;
    return *reinterpret_cast<const Bits128*>(data + lane.row * kStride + column * 2);
  }
};

template <PackedFormat kFormat, int kSteps>
struct SkinnyPiece<PackedSkinny<kFormat>, kSteps> {
  using Panels = PackedPanels<kFormat>;
  static constexpr int kTiles = Panels::kRows / kSkinnyRows;
  static constexpr int kGroups = kSteps * kSkinnyWaves;
  static constexpr int kBytes = kGroups * (Panels::kScaleBytes + Panels::kCodeBytes);

  const std::byte* data;

  __device__ static void ask(std::byte* to, const void* matrix, int64_t row, uint64_t* arrived) {
    constexpr int kPart = kBytes / kSkinnyWaves;
    static_assert(kBytes % kSkinnyWaves == 0 && kPart % 16 == 0);
    if (threadIdx.x % 32 != 0) return;
    const int wave = static_cast<int>(threadIdx.x) / 32;
    if (wave == 0) expect_bytes(arrived, kBytes);
    const Panels panels{static_cast<const std::byte*>(matrix), kGroups};
    copy_once(to + wave * kPart, panels.panel(row) + wave * kPart, arrived, kPart);
  }
  __device__ Bits128 at(int tile, int step) const {
    const SkinnyLane lane;
    const int row = tile * kSkinnyRows + lane.row, group = lane.wave * kSteps + step;
    PackedEight<kFormat> codes;
#pragma unroll
    for (int w = 0; w < PackedEight<kFormat>::kWords; ++w) {
      codes.words[w] = *reinterpret_cast<const uint32_t*>(
          data + Panels::code_offset(kGroups, row, group, lane.column / 8, w));
    }
    const auto* scales = reinterpret_cast<const bf16*>(data + group * Panels::kScaleBytes);
    return codes.weights(scales[row].bits * 0x10001u);
  }
};

// kPieces that are multiplied together, as weights.at(tile, step).
template <class Piece, int kPieces>
struct SkinnyPieces {
  Piece piece[kPieces];
  __device__ Bits128 at(int tile, int step) const {
    return piece[tile / Piece::kTiles].at(tile % Piece::kTiles, step);
  }
};

// A block's pieces on their way, in the order in which it takes them: `stages` are in shared memory
// or coming. A stage is asked for again when all waves have read it.
template <class Piece>
class PieceRing {
 public:
  // All threads take part, here and below.
  __device__ PieceRing(std::byte* room, uint64_t* arrived, int stages)
      : room_(room), arrived_(arrived), stages_(stages) {
    if (threadIdx.x == 0) {
      for (int i = 0; i < stages; ++i) init_barrier(&arrived[i], 1);
      publish_barriers();
    }
    __syncthreads();
  }

  __device__ int stages() const { return stages_; }

  // Into a stage that nobody reads. Stages are asked for in order.
  __device__ void ask(const void* matrix, int64_t row) {
    Piece::ask(room_ + next_ * Piece::kBytes, matrix, row, &arrived_[next_]);
    if (++next_ == stages_) next_ = 0;
  }

  // The next pieces, when they have arrived.
  template <int kPieces>
  __device__ SkinnyPieces<Piece, kPieces> take() {
    SkinnyPieces<Piece, kPieces> pieces;
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      wait_barrier(&arrived_[stage_], phase_);
      pieces.piece[i].data = room_ + stage_ * Piece::kBytes;
      if (++stage_ == stages_) {
        stage_ = 0;
        phase_ ^= 1;
      }
    }
    return pieces;
  }

 private:
  std::byte* room_;
  uint64_t* arrived_;
  int stages_, stage_ = 0, next_ = 0;
  uint32_t phase_ = 0;
};

// Up to kTokens tokens in registers, eight or some times sixteen: a thread's columns of them.
template <int kSteps, int kTokens>
struct SkinnyTokens {
  static constexpr bool kBoth = kTokens > 8;
  static constexpr int kGroups = kBoth ? kTokens / kSkinnyTokens : 1;
  Bits128 low[kGroups][kSteps], high[kGroups][kBoth ? kSteps : 1];

  // tokens(i): where token i begins, or null.
  template <class Tokens>
  __device__ void load(const Tokens& tokens) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const auto in_group = [&](int i) { return tokens(g * kSkinnyTokens + i); };
      const SkinnyReader<kSteps, decltype(in_group)> reader(in_group);
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        const SkinnyPair pair = reader(s, 0);
        low[g][s] = pair.low;
        if constexpr (kBoth) high[g][s] = pair.high;
      }
    }
  }
  __device__ SkinnyPair operator()(int step, int group) const {
    if constexpr (kBoth) return {low[group][step], high[group][step]};
    return {low[group][step], {}};
  }
};

}  // namespace tephra::gpu::hopper
