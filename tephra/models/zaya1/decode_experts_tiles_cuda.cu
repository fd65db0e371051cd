// SPDX-License-Identifier: Apache-2.0
// The experts' products of many rows on Hopper. 128 rows of an expert's matrix and up to 64 of its
// tokens meet in shared memory, 64 columns at a time, and are multiplied by warpgroups. Sums are
// formed as decode_head_cuda.cu says.
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/wide.h"
#include "tephra/models/zaya1/decode_experts_gpu.h"

namespace tephra::zaya1 {
namespace {

namespace hopper = gpu::hopper;

constexpr int kTileThreads = gpu::kSkinnyThreads + 32;  // a wave asks for what the others multiply
constexpr int kTileHalf = 64;    // rows of the matrix that adjoin: a tile has two such halves
constexpr int kTileTokens = 64;  // at most; an expert with more has its tiles several times

struct ExpertChunk {
  alignas(1024) std::byte rows[2][kTileHalf * hopper::kWideColumns * 2];
  alignas(1024) std::byte tokens[kTileTokens * hopper::kWideColumns * 2];
};

// The rows that chose each class, one class after another.
struct ExpertLists {
  static constexpr int kWaves = kDecodeRows / 32, kClasses = 32;
  int row[kDecodeRows];
  int first[kClasses + 1];
  int counts[kWaves][kClasses];

  __device__ int count(int expert) const { return first[expert + 1] - first[expert]; }
  __device__ int passes(int expert) const {
    return (count(expert) + kTileTokens - 1) / kTileTokens;
  }
};
static_assert(kDecodeExperts < ExpertLists::kClasses);

// All threads take part.
__device__ void list_rows(const volatile int32_t* chosen, int rows, ExpertLists& lists) {
  const int i = static_cast<int>(threadIdx.x), wave = i / 32, lane = i % 32;
  const bool asks = wave < ExpertLists::kWaves;
  const int own = asks && i < rows ? chosen[i] : -1;
  const uint32_t same = __match_any_sync(~0u, own);
  const int before = __popc(same & ((1u << lane) - 1));
  if (asks) lists.counts[wave][lane] = 0;
  __syncwarp();
  if (own >= 0 && before == 0) lists.counts[wave][own] = __popc(same);
  __syncthreads();
  if (wave == 0) {
    int end = 0;
    for (int w = 0; w < ExpertLists::kWaves; ++w) end += lists.counts[w][lane];
    for (int step = 1; step < 32; step *= 2) {
      const int below = __shfl_up_sync(~0u, end, step);
      if (lane >= step) end += below;
    }
    lists.first[lane + 1] = end;
    if (lane == 0) lists.first[0] = 0;
  }
  __syncthreads();
  if (own >= 0) {
    int place = lists.first[own] + before;
    for (int w = 0; w < wave; ++w) place += lists.counts[w][own];
    lists.row[place] = i;
  }
  __syncthreads();
}

// The tiles of a block, one after another: each expert's, as often as it has passes.
class ExpertTiles {
 public:
  __device__ ExpertTiles(const ExpertLists& lists, int experts, int each)
      : lists_(lists), experts_(experts), each_(each), item_(static_cast<int>(blockIdx.x)) {
    settle();
  }
  __device__ bool done() const { return expert_ >= experts_; }
  __device__ void next() {
    item_ += static_cast<int>(gridDim.x);
    settle();
  }
  __device__ int expert() const { return expert_; }
  __device__ int tile() const { return item_ / lists_.passes(expert_); }
  // The tokens of this pass.
  __device__ const int* rows() const { return lists_.row + first(); }
  __device__ int count() const {
    const int left = lists_.first[expert_ + 1] - first();
    return left < kTileTokens ? left : kTileTokens;
  }

 private:
  __device__ int first() const {
    return lists_.first[expert_] + item_ % lists_.passes(expert_) * kTileTokens;
  }
  __device__ void settle() {
    for (; expert_ < experts_; ++expert_) {
      const int own = each_ * lists_.passes(expert_);
      if (item_ < own) return;
      item_ -= own;
    }
  }
  const ExpertLists& lists_;
  int experts_, each_, item_, expert_ = 0;
};

struct ExpertTilesShared {
  static constexpr int kStages = 8;
  ExpertChunk chunks[kStages];
  uint64_t full[kStages], empty[kStages];
  ExpertLists lists;
};
constexpr int64_t kTilesBytes = hopper::kAlignedBytes<ExpertTilesShared>;

__device__ ExpertTilesShared& prepared_tiles(gpu::Bits128* room) {
  auto& shared = hopper::aligned_shared<ExpertTilesShared>(room);
  if (threadIdx.x == 0) {
    for (int i = 0; i < ExpertTilesShared::kStages; ++i) {
      hopper::init_barrier(&shared.full[i], 1 + 32);  // matrix; tokens, by each lane
      hopper::init_barrier(&shared.empty[i], gpu::kSkinnyWaves);
    }
    hopper::publish_barriers();
  }
  __syncthreads();
  return shared;
}

// Asks for the chunks of a block's tiles, by one wave. Rows of the matrix are asked for before the
// kernel ahead is waited for, tokens after it.
template <int kChunks, class Result>
class ExpertChunks {
 public:
  static constexpr int kStages = ExpertTilesShared::kStages;
  static constexpr int kDepth = kChunks * hopper::kWideColumns;

  __device__ ExpertChunks(const CUtensorMap* matrix, const bf16* tokens, const Result& result,
                          ExpertTilesShared& shared)
      : matrix_(matrix), tokens_(tokens), result_(result), shared_(shared) {}

  __device__ void ask(const ExpertTiles& tile) const {
    Walk rows(tile, result_), tokens = rows;
    int ahead = 0;
    for (; ahead < kStages && !rows.done(); ++ahead, rows.next(result_)) ask_rows(rows, ahead);
    gpu::wait_for_kernel_ahead();
    for (int i = 0; i < ahead; ++i, tokens.next(result_)) ask_tokens(tokens, i);
    for (hopper::Ring<kStages> at; !rows.done(); at.advance(), rows.next(result_)) {
      hopper::wait_barrier(&shared_.empty[at.stage], at.phase);
      ask_rows(rows, at.stage);
      ask_tokens(rows, at.stage);
    }
  }

 private:
  // A chunk of a tile, and what is the same for all chunks of it.
  struct Walk {
    ExpertTiles tile;
    int chunk = 0, count = 0, matrix_row[2];
    const int* rows;

    __device__ Walk(const ExpertTiles& first, const Result& result) : tile(first) { enter(result); }
    __device__ bool done() const { return tile.done(); }
    __device__ void next(const Result& result) {
      if (++chunk < kChunks) return;
      tile.next();
      enter(result);
    }

   private:
    __device__ void enter(const Result& result) {
      chunk = 0;
      if (done()) return;
      rows = tile.rows();
      count = tile.count();
      for (int i = 0; i < 2; ++i) {
        matrix_row[i] = result.matrix_row(tile.expert(), tile.tile(), i);
      }
    }
  };

  __device__ void ask_rows(const Walk& at, int stage) const {
    if (threadIdx.x % 32 != 0) return;
    ExpertChunk& chunk = shared_.chunks[stage];
    hopper::expect_bytes(&shared_.full[stage], sizeof(chunk.rows));
    for (int half = 0; half < 2; ++half) {
      hopper::copy_tile(chunk.rows[half], matrix_, &shared_.full[stage],
                        at.chunk * hopper::kWideColumns, at.matrix_row[half], 0);
    }
  }
  // Eight lanes have a token's part of the chunk: bulk copies of so few bytes take too long.
  __device__ void ask_tokens(const Walk& at, int stage) const {
    const int unit = static_cast<int>(threadIdx.x) % 8;
    const bf16* from = tokens_ + at.chunk * hopper::kWideColumns + unit * gpu::kWide;
    std::byte* to = shared_.chunks[stage].tokens;
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x) % 32 / 8; i < at.count; i += 4) {
      gpu::copy_to_shared(hopper::unit_of(to, i, unit), from + int64_t{at.rows[i]} * kDepth);
    }
    hopper::arrive_when_copied(&shared_.full[stage]);
  }

  const CUtensorMap* matrix_;
  const bf16* tokens_;
  const Result& result_;
  ExpertTilesShared& shared_;
};

__device__ inline int tile_lane() { return static_cast<int>(threadIdx.x) % 32; }

// A thread's row of each half.
__device__ inline int tile_row() {
  return static_cast<int>(threadIdx.x) / 32 * gpu::kSkinnyRows +
         hopper::wide_place(tile_lane() / 4);
}

// f(row of the step, i) for the tokens of a thread, of which i is its i-th.
template <int kTokens, class F>
__device__ void each_token(const ExpertTiles& tile, const F& f) {
  const int* rows = tile.rows();
  const int count = tile.count();
#pragma unroll
  for (int i = 0; i < kTokens / 4; ++i) {
    const int token = i / 2 * 8 + tile_lane() % 4 * 2 + i % 2;
    if (token < count) f(rows[token], i);
  }
}

// A thread's sums of a tile: of a row of each half and a quarter of the tokens.
template <int kTokens>
class ExpertTileSums {
 public:
  __device__ void multiply(const ExpertChunk& chunk, bool first) {
    const hopper::WideSteps rows(chunk.rows[0], chunk.rows[1], tile_row());
    const uint64_t tokens = hopper::tile_along(chunk.tokens);
    hopper::publish_stores();  // the tokens' words are ordinary ones
    hopper::pin(own_);
    hopper::begin_products();
#pragma unroll
    for (int i = 0; i < rows.kCount; ++i) {
      step(rows.at[i], tokens + i * hopper::kStep<false>, !first || i > 0);
    }
    hopper::commit_products();
    hopper::wait_products<0>();
    hopper::pin(own_);
  }
  // A range of columns has ended: its sums join those of the ranges before it.
  __device__ void end_range(bool first) {
#pragma unroll
    for (int i = 0; i < kTokens / 2; ++i) total_[i] = first ? own_[i] : total_[i] + own_[i];
  }
  __device__ float at(int half, int token) const {
    return total_[token / 2 * 4 + half * 2 + token % 2];
  }

 private:
  __device__ void step(const uint32_t* rows, uint64_t tokens, int accumulate) {
    if constexpr (kTokens == 16) hopper::multiply_64x16x16<false>(own_, rows, tokens, accumulate);
    if constexpr (kTokens == 32) hopper::multiply_64x32x16<false>(own_, rows, tokens, accumulate);
    if constexpr (kTokens == 64) hopper::multiply_64x64x16<false>(own_, rows, tokens, accumulate);
  }
  float own_[kTokens / 2], total_[kTokens / 2];
};

template <int kChunks, int kTokens, class Result>
__device__ void multiply_tile(const ExpertTiles& tile, const Result& result,
                              hopper::Ring<ExpertTilesShared::kStages>& at,
                              ExpertTilesShared& shared) {
  constexpr int kRange = kChunks / hopper::kWideSplits;
  ExpertTileSums<kTokens> sums;
  const typename Result::template Before<kTokens> before(result, tile);
  for (int range = 0; range < hopper::kWideSplits; ++range) {
#pragma unroll 1
    for (int i = 0; i < kRange; ++i, at.advance()) {
      hopper::wait_barrier(&shared.full[at.stage], at.phase);
      sums.multiply(shared.chunks[at.stage], i == 0);
      __syncwarp();
      if (threadIdx.x % 32 == 0) hopper::arrive(&shared.empty[at.stage]);
    }
    sums.end_range(range == 0);
  }
  result.write(tile, sums, before);
}

// What a block does when it knows who chose whom. Waits for the kernel ahead.
template <int kChunks, class Result>
__device__ void multiply_experts(const CUtensorMap* matrix, const bf16* tokens, int experts,
                                 const Result& result, ExpertTilesShared& shared) {
  ExpertTiles tile(shared.lists, experts, result.tiles());
  if (threadIdx.x >= gpu::kSkinnyThreads) {
    ExpertChunks<kChunks, Result>(matrix, tokens, result, shared).ask(tile);
    return;
  }
  gpu::wait_for_kernel_ahead();
  hopper::Ring<ExpertTilesShared::kStages> at;
  for (; !tile.done(); tile.next()) {
    if (tile.count() <= 16) {
      multiply_tile<kChunks, 16>(tile, result, at, shared);
    } else if (tile.count() <= 32) {
      multiply_tile<kChunks, 32>(tile, result, at, shared);
    } else {
      multiply_tile<kChunks, kTileTokens>(tile, result, at, shared);
    }
  }
}

// The halves of a tile are 64 rows of the gate and the other's for the same columns.
struct ExpertActivated {
  bf16* activated;
  int width;

  __device__ int tiles() const { return width / kTileHalf; }
  __device__ int matrix_row(int expert, int tile, int half) const {
    return (expert * 2 + half) * width + tile * kTileHalf;
  }
  template <int kTokens>
  struct Before {
    __device__ Before(const ExpertActivated&, const ExpertTiles&) {}
  };
  template <int kTokens>
  __device__ void write(const ExpertTiles& tile, const ExpertTileSums<kTokens>& sums,
                        const Before<kTokens>&) const {
    bf16* to = activated + decode_ordered(tile.tile() * kTileHalf + tile_row());
    each_token<kTokens>(tile, [&](int row, int i) {
      to[int64_t{row} * width] = decode_activated(sums.at(0, i), sums.at(1, i));
    });
  }
};

// The halves of a tile adjoin. What is in the stream is read while the product is formed.
struct ExpertMerged {
  DecodeMerged merged;
  const float* chosen_weight;

  __device__ int tiles() const { return merged.width / (2 * kTileHalf); }
  __device__ int matrix_row(int expert, int tile, int half) const {
    return expert * merged.width + (tile * 2 + half) * kTileHalf;
  }
  template <int kTokens>
  struct Before {
    float at[2][kTokens / 4];

    __device__ Before(const ExpertMerged& result, const ExpertTiles& tile) {
      const DecodeMerged& m = result.merged;
      const float* from = m.stream + tile.tile() * 2 * kTileHalf + tile_row();
      each_token<kTokens>(tile, [&](int row, int i) {
        at[0][i] = from[int64_t{row} * m.width];
        at[1][i] = from[int64_t{row} * m.width + kTileHalf];
      });
    }
  };
  template <int kTokens>
  __device__ void write(const ExpertTiles& tile, const ExpertTileSums<kTokens>& sums,
                        const Before<kTokens>& before) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const DecodeMerged::Column column =
          merged.column((tile.tile() * 2 + half) * kTileHalf + tile_row());
      each_token<kTokens>(tile, [&](int row, int i) {
        const float value = float(bf16(sums.at(half, i))) * chosen_weight[row];
        column.write(row, before.at[half][i], bf16(value));
      });
    }
  }
};

template <int kSteps>
constexpr int kTileChunks = kSteps* gpu::kSkinnyColumns / hopper::kWideColumns;

template <int kSteps>
__global__ void __launch_bounds__(kTileThreads, 1)
    decode_tiles_up(const __grid_constant__ CUtensorMap matrix, const bf16* tokens,
                    const int32_t* chosen, int rows, int experts, ExpertActivated result) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  ExpertTilesShared& shared = prepared_tiles(gpu::dynamic_shared<gpu::Bits128>());
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  list_rows(chosen, rows, shared.lists);
  multiply_experts<kTileChunks<kSteps>>(&matrix, tokens, experts, result, shared);
#endif
}

// The choice was made two kernels ahead, as in decode_experts_down.
template <int kSteps>
__global__ void __launch_bounds__(kTileThreads, 1)
    decode_tiles_down(const __grid_constant__ CUtensorMap matrix, const bf16* tokens,
                      const int32_t* chosen, int rows, int experts, ExpertMerged result) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  ExpertTilesShared& shared = prepared_tiles(gpu::dynamic_shared<gpu::Bits128>());
  list_rows(chosen, rows, shared.lists);
  gpu::let_next_kernel_start();
  multiply_experts<kTileChunks<kSteps>>(&matrix, tokens, experts, result, shared);
  // Rows that skip.
  if (threadIdx.x >= gpu::kSkinnyThreads) return;
  const int* skipping = shared.lists.row + shared.lists.first[experts];
  const int count = shared.lists.count(experts), width = result.merged.width;
  for (int c = static_cast<int>(blockIdx.x * gpu::kSkinnyThreads + threadIdx.x); c < count * width;
       c += static_cast<int>(gridDim.x) * gpu::kSkinnyThreads) {
    const DecodeMerged::Column column = result.merged.column(c % width);
    const int row = skipping[c / width];
    column.write(row, column.before(row), bf16(0.0f));
  }
#endif
}

// Whether a layer's experts are multiplied in tiles, both products: the second one knows in which
// order the first one writes.
bool takes_tiles(gpu::Stream& stream, const DecodePlan& p, int rows, const DecodeLayer& l) {
  const int hidden = p.sizes.hidden, inner = p.sizes.expert_hidden;
  return rows >= kDecodeOrderedRows && !l.gate_up.packed && !l.down.packed && hidden >= 512 &&
         inner >= 512 && !gpu::only_portable() && hopper::processors(stream) > 0;
}

template <class F>
void visit_tiled_depth(int columns, F&& f) {
  visit_depth(columns, [&]<int kSteps>() {
    if constexpr (kSteps >= 2) f.template operator()<kSteps>();
  });
}

template <class Kernel, class Result>
void launch_tiles(gpu::Stream& stream, Kernel kernel, const DecodePlan& p, const void* matrices,
                  int64_t matrix_rows, int in, const bf16* tokens, int rows, const int32_t* chosen,
                  const Result& result) {
  stream.allow_shared(kernel, kTilesBytes);
  stream.launch_early(
      kernel,
      {.blocks = hopper::processors(stream), .threads = kTileThreads, .shared_bytes = kTilesBytes},
      hopper::Matrices{matrices, in, matrix_rows, in, 1, kTileHalf}.describe(), tokens, chosen,
      rows, p.sizes.experts, result);
}

}  // namespace

bool tile_expert_up(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                    const DecodeLayer& l, const int32_t* chosen) {
  if (!takes_tiles(stream, p, rows, l)) return false;
  const int width = p.sizes.expert_hidden;
  visit_tiled_depth(p.sizes.hidden, [&]<int kSteps>() {
    launch_tiles(stream, decode_tiles_up<kSteps>, p, l.gate_up.data,
                 int64_t{p.sizes.experts} * 2 * width, p.sizes.hidden, w.ordered, rows, chosen,
                 ExpertActivated{w.activated, width});
  });
  return true;
}

bool tile_expert_down(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                      const DecodeLayer& l, const int32_t* chosen) {
  if (!takes_tiles(stream, p, rows, l)) return false;
  const int width = p.sizes.hidden;
  visit_tiled_depth(p.sizes.expert_hidden, [&]<int kSteps>() {
    launch_tiles(stream, decode_tiles_down<kSteps>, p, l.down.data,
                 int64_t{p.sizes.experts} * width, p.sizes.expert_hidden, w.activated, rows, chosen,
                 ExpertMerged{{l.after_mlp, w.stream, width}, w.chosen_weight});
  });
  return true;
}

}  // namespace tephra::zaya1
