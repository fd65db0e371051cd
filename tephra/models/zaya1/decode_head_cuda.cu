// SPDX-License-Identifier: Apache-2.0
// The head's product of 128 tokens on Hopper, by products of warpgroups. Two blocks of a cluster
// have 128 rows of the matrix each and share the tokens, of which each asks for a half: from the L2
// cache come half as many bytes of them. 64 columns meet in shared memory at a time.
// The matrix goes through registers, the tokens lie in the order of decode_ordered, so sums have
// the bits of device/gpu/skinny.h.
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/wide.h"
#include "tephra/models/zaya1/decode_products_gpu.h"

namespace tephra::zaya1 {
namespace {

namespace hopper = gpu::hopper;

constexpr int kHeadTokens = kDecodeOrderedRows, kHeadTileRows = 128,
              kHeadBlocks = 2;                          // of a cluster
constexpr int kHeadThreads = gpu::kSkinnyThreads + 32;  // a wave asks for what the others multiply

struct HeadShared {
  static constexpr int kStages = 6;
  hopper::WideChunk<kHeadTokens, kHeadTileRows> chunks[kStages];
  uint64_t full[kStages], empty[kStages];
};

// The sums of a warpgroup: 64 rows of the matrix times all tokens.
class HeadSums {
 public:
  __device__ void multiply(const hopper::WideChunk<kHeadTokens, kHeadTileRows>& chunk, bool first) {
    constexpr int kNext = 8 * hopper::kWideColumns * 2;  // bytes to the row eight further
    const hopper::WideSteps rows(chunk.rows, chunk.rows + kNext, row());
    const uint64_t tokens = hopper::tile_along(chunk.tokens);
    hopper::pin(own_);
    hopper::begin_products();
#pragma unroll
    for (int i = 0; i < rows.kCount; ++i) {
      hopper::multiply_64x128x16<false>(own_, rows.at[i], tokens + i * hopper::kStep<false>,
                                        !first || i > 0);
    }
    hopper::commit_products();
    hopper::wait_products<0>();
    hopper::pin(own_);
  }
  // A range of columns has ended: its sums join those of the ranges before it.
  __device__ void end_range(bool first) {
#pragma unroll
    for (int i = 0; i < 64; ++i) total_[i] = first ? own_[i] : total_[i] + own_[i];
  }
  // f(token, row, sum).
  template <class F>
  __device__ void each(const F& f) const {
    const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int i = 0; i < 64; ++i) f(i / 4 * 8 + pair + i % 2, row() + i % 4 / 2 * 8, total_[i]);
  }

 private:
  // The first of a thread's two.
  __device__ static int row() {
    const int wave = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    return wave * 16 + hopper::wide_place(lane / 4);
  }
  float own_[64], total_[64];
};

// Which tiles a block has: its cluster has as many as there are blocks in it, side by side.
struct HeadTiles {
  int count;

  __device__ int clusters() const { return (count + kHeadBlocks - 1) / kHeadBlocks; }
  __device__ static int rank() { return static_cast<int>(blockIdx.x) % kHeadBlocks; }
  __device__ static int first() { return static_cast<int>(blockIdx.x) / kHeadBlocks; }
  __device__ static int step() { return static_cast<int>(gridDim.x) / kHeadBlocks; }
};

template <int kChunks>
__device__ void ask_head(const CUtensorMap* tokens, const CUtensorMap* matrix,
                         const HeadTiles& tiles, HeadShared& shared) {
  using Chunk = hopper::WideChunk<kHeadTokens, kHeadTileRows>;
  constexpr int kHalf = sizeof(Chunk::tokens) / kHeadBlocks, kStages = HeadShared::kStages;
  const int first = HeadTiles::first(), step = HeadTiles::step(), rank = HeadTiles::rank();
  const int all = tiles.clusters();
  const int count = first < all ? ((all - 1 - first) / step + 1) * kChunks : 0;
  const auto ask_rows = [&](int i, int stage) {
    hopper::expect_bytes(&shared.full[stage], sizeof(Chunk::rows) + sizeof(Chunk::tokens));
    const int tile = (first + i / kChunks * step) * kHeadBlocks + rank;
    hopper::copy_tile(shared.chunks[stage].rows, matrix, &shared.full[stage],
                      i % kChunks * hopper::kWideColumns, tile * kHeadTileRows, 0);
  };
  const auto ask_tokens = [&](int i, int stage) {
    hopper::copy_tile_to_cluster(shared.chunks[stage].tokens + rank * kHalf, tokens,
                                 &shared.full[stage], i % kChunks * hopper::kWideColumns,
                                 rank * (kHeadTokens / kHeadBlocks), (1 << kHeadBlocks) - 1);
  };
  const int ahead = count < kStages ? count : kStages;
  for (int i = 0; i < ahead; ++i) ask_rows(i, i);
  gpu::wait_for_kernel_ahead();
  for (int i = 0; i < ahead; ++i) ask_tokens(i, i);
  hopper::Ring<kStages> at;
  for (int i = ahead; i < count; ++i, at.advance()) {
    hopper::wait_barrier(&shared.empty[at.stage], at.phase);
    ask_rows(i, at.stage);
    ask_tokens(i, at.stage);
  }
}

template <int kChunks>
__device__ void multiply_head(const HeadTiles& tiles, const DecodeStoreLogits& logits,
                              HeadShared& shared) {
  constexpr int kRange = kChunks / hopper::kWideSplits;
  hopper::Ring<HeadShared::kStages> at;
  for (int t = HeadTiles::first(); t < tiles.clusters(); t += HeadTiles::step()) {
    HeadSums sums;
    for (int range = 0; range < hopper::kWideSplits; ++range) {
#pragma unroll 1
      for (int i = 0; i < kRange; ++i, at.advance()) {
        hopper::wait_barrier(&shared.full[at.stage], at.phase);
        sums.multiply(shared.chunks[at.stage], i == 0);
        __syncwarp();
        const int lane = static_cast<int>(threadIdx.x) % 32;
        if (lane < kHeadBlocks) hopper::arrive_in_cluster(&shared.empty[at.stage], lane);
      }
      sums.end_range(range == 0);
    }
    const int tile = t * kHeadBlocks + HeadTiles::rank();
    if (tile >= tiles.count) continue;
    sums.each([&](int token, int row, float sum) {
      logits.out[token * logits.width + int64_t{tile} * kHeadTileRows + row] = sum;
    });
  }
}

template <int kSteps>
__global__ void __launch_bounds__(kHeadThreads, 1)
    decode_head_product(const __grid_constant__ CUtensorMap tokens,
                        const __grid_constant__ CUtensorMap matrix, HeadTiles tiles,
                        DecodeStoreLogits logits) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  constexpr int kChunks = kSteps * gpu::kSkinnyColumns / hopper::kWideColumns;
  static_assert(kChunks >= hopper::kWideSplits);
  auto& shared = hopper::aligned_shared<HeadShared>(gpu::dynamic_shared<gpu::Bits128>());
  if (threadIdx.x == 0) {
    for (int i = 0; i < HeadShared::kStages; ++i) {
      hopper::init_barrier(&shared.full[i], 1);
      hopper::init_barrier(&shared.empty[i], kHeadBlocks * gpu::kSkinnyWaves);
    }
    hopper::publish_barriers();
  }
  gpu::arrive_at_cluster();  // the other's barriers are ready
  gpu::wait_for_cluster();
  if (threadIdx.x < gpu::kSkinnyThreads) {
    gpu::wait_for_kernel_ahead();
    gpu::let_next_kernel_start();
    multiply_head<kChunks>(tiles, logits, shared);
  } else if (threadIdx.x == gpu::kSkinnyThreads) {
    ask_head<kChunks>(&tokens, &matrix, tiles, shared);
  }
  __syncwarp();
  gpu::arrive_at_cluster();  // the other may still write here
  gpu::wait_for_cluster();
#endif
}

}  // namespace

bool tile_head(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows) {
  const int64_t vocabulary = p.sizes.vocabulary;
  const int hidden = p.sizes.hidden;
  if (p.head.packed || rows != kHeadTokens || vocabulary % kHeadTileRows != 0 || hidden < 512 ||
      gpu::only_portable() || hopper::processors(stream) == 0) {
    return false;
  }
  const auto map = [hidden](const void* data, int64_t count, uint32_t box) {
    return hopper::Matrices{data, hidden, count, hidden, 1, box}.describe();
  };
  visit_depth(hidden, [&]<int kSteps>() {
    if constexpr (kSteps >= 2) {
      constexpr int64_t kBytes = hopper::kAlignedBytes<HeadShared>;
      const auto kernel = decode_head_product<kSteps>;
      stream.allow_shared(kernel, kBytes);
      stream.launch_early(kernel,
                          {.blocks = hopper::processors(stream) / kHeadBlocks * kHeadBlocks,
                           .threads = kHeadThreads,
                           .shared_bytes = kBytes,
                           .cluster = kHeadBlocks},
                          map(w.ordered, rows, kHeadTokens / kHeadBlocks),
                          map(p.head.data, vocabulary, kHeadTileRows),
                          HeadTiles{static_cast<int>(vocabulary / kHeadTileRows)},
                          DecodeStoreLogits{w.logits, vocabulary});
    }
  });
  return true;
}

}  // namespace tephra::zaya1
