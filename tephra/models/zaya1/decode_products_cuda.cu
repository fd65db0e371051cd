// SPDX-License-Identifier: Apache-2.0
// Products of a decode step's rows with one matrix on Hopper: up to sixteen rows with a matrix that
// streams by (device/gpu/skinny_stream.h), more of them in tiles (device/gpu/wide.h).
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/skinny_stream.h"
#include "tephra/device/gpu/wide.h"
#include "tephra/models/zaya1/decode_products_gpu.h"

namespace tephra::zaya1 {
namespace {

namespace hopper = gpu::hopper;

// --- up to sixteen rows ---

template <int kTiles, int kTokens>
struct alignas(128) ProductStreamShared {
  gpu::SkinnySums<kTiles, kTokens> sums[2];
  uint64_t arrived[16];
};

// Sixteen rows of the matrix are multiplied at once.
template <class Piece>
constexpr int kProductPieces = 2 / Piece::kTiles;

// A block has a part of the matrix' rows.
template <class Stored, int kSteps, int kTokens, class Result>
__global__ void __launch_bounds__(gpu::kSkinnyThreads)
    decode_stream_product(const void* matrix, const bf16* tokens, int rows, int64_t places,
                          int stages, Result result) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  using Piece = hopper::SkinnyPiece<Stored, kSteps>;
  constexpr int kPieces = kProductPieces<Piece>, kTiles = kPieces * Piece::kTiles;
  constexpr int kWidth = kTiles * gpu::kSkinnyRows;
  using Shared = ProductStreamShared<kTiles, kTokens>;
  static_assert(kTokens * kWidth <= gpu::kSkinnyThreads, "a thread has one element");
  auto& shared = *gpu::dynamic_shared<Shared>();
  hopper::PieceRing<Piece> ring(reinterpret_cast<std::byte*>(&shared + 1), shared.arrived, stages);
  const int64_t begin = places * blockIdx.x / gridDim.x;
  const int count = static_cast<int>(places * (blockIdx.x + 1) / gridDim.x - begin);
  int asked = 0;
  const auto ask_next = [&] {
    if (asked == count) return;
    for (int i = 0; i < kPieces; ++i) {
      ring.ask(matrix, (begin + asked) * kWidth + i * (kWidth / kPieces));
    }
    ++asked;
  };
  for (int i = 0; i + kPieces <= stages; i += kPieces) ask_next();
  const int token = static_cast<int>(threadIdx.x) / kWidth;
  const int own = static_cast<int>(threadIdx.x) % kWidth;
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  hopper::SkinnyTokens<kSteps, kTokens> held;
  held.load([&](int i) -> const bf16* {
    return i < rows ? tokens + int64_t{i} * (kSteps * gpu::kSkinnyColumns) : nullptr;
  });
  for (int i = 0; i < count; ++i) {
    auto& sums = shared.sums[i % 2];
    gpu::multiply_parts<kTiles, kSteps>(ring.template take<kPieces>(), held, sums);
    __syncthreads();
    ask_next();
    if (token < rows && token < kTokens) {
      const auto column = result.column((begin + i) * kWidth + own);
      column.write(token, column.before(token), sums.total(token, own));
    }
  }
#endif
}

template <class Result>
void stream_product(gpu::Stream& stream, const DecodePlan& p, const DecodeMatrix& matrix,
                    int64_t out, int in, const bf16* tokens, int rows, const Result& result) {
  static const int64_t most = gpu::most_shared_bytes(p.device);
  const int64_t blocks = hopper::processors(stream);
  visit_stored(matrix, [&]<class Stored>() {
    visit_depth(in, [&]<int kSteps>() {
      const auto launch = [&]<int kTokens>() {
        using Piece = hopper::SkinnyPiece<Stored, kSteps>;
        constexpr int kPieces = kProductPieces<Piece>, kTiles = kPieces * Piece::kTiles;
        constexpr int64_t kOther = sizeof(ProductStreamShared<kTiles, kTokens>);
        const int64_t places = out / (kTiles * gpu::kSkinnyRows);
        const int64_t stages = std::min<int64_t>(
            {kPieces * gpu::blocks_for(places, blocks), (most - kOther) / Piece::kBytes, 16});
        const int64_t bytes = stages * Piece::kBytes + kOther;
        const auto kernel = decode_stream_product<Stored, kSteps, kTokens, Result>;
        stream.allow_shared(kernel, bytes);
        stream.launch_early(
            kernel, {.blocks = blocks, .threads = gpu::kSkinnyThreads, .shared_bytes = bytes},
            matrix.data, tokens, rows, places, static_cast<int>(stages), result);
      };
      if (rows <= 8) {
        launch.template operator()<8>();
      } else {
        launch.template operator()<16>();
      }
    });
  });
}

// --- from 32 rows on ---

constexpr int kWideThreads = gpu::kSkinnyThreads + 32;  // a wave asks for what the others multiply

template <int kTokens, int kRows>
struct WideShared {
  using Chunk = hopper::WideChunk<kTokens, kRows>;
  static constexpr int kStages = 192 * 1024 / sizeof(Chunk);
  Chunk chunks[kStages];
  uint64_t full[kStages], empty[kStages];
};

// What the two roles of a block share: its tiles are kRows of the matrix and kTokens of `groups`
// times as many tokens.
struct WideTiles {
  int count, groups;

  __device__ int row(int tile) const { return tile / groups; }
  __device__ int group(int tile) const { return tile % groups; }
};

// Asks for the chunks of a block's tiles, by one thread: rows of the matrix before the kernel ahead
// is waited for, tokens after it.
template <int kTokens, int kRows, int kChunks>
__device__ void ask_wide(const CUtensorMap* tokens, const CUtensorMap* matrix,
                         const WideTiles& tiles, WideShared<kTokens, kRows>& shared) {
  using Shared = WideShared<kTokens, kRows>;
  using Chunk = typename Shared::Chunk;
  const int step = static_cast<int>(gridDim.x), first = static_cast<int>(blockIdx.x);
  const int count = first < tiles.count ? ((tiles.count - 1 - first) / step + 1) * kChunks : 0;
  const auto ask_rows = [&](int i, int stage) {
    hopper::expect_bytes(&shared.full[stage], sizeof(Chunk::rows) + sizeof(Chunk::tokens));
    hopper::copy_tile(shared.chunks[stage].rows, matrix, &shared.full[stage],
                      i % kChunks * hopper::kWideColumns,
                      tiles.row(first + i / kChunks * step) * kRows, 0);
  };
  const auto ask_tokens = [&](int i, int stage) {
    hopper::copy_tile(shared.chunks[stage].tokens, tokens, &shared.full[stage],
                      i % kChunks * hopper::kWideColumns,
                      tiles.group(first + i / kChunks * step) * kTokens, 0);
  };
  const int ahead = count < Shared::kStages ? count : Shared::kStages;
  for (int i = 0; i < ahead; ++i) ask_rows(i, i);
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  for (int i = 0; i < ahead; ++i) ask_tokens(i, i);
  hopper::Ring<Shared::kStages> at;
  for (int i = ahead; i < count; ++i, at.advance()) {
    hopper::wait_barrier(&shared.empty[at.stage], at.phase);
    ask_rows(i, at.stage);
    ask_tokens(i, at.stage);
  }
}

// A block goes from tile to tile; one thread asks for chunks of both operands.
template <int kTokens, int kRows, int kSteps, class Result>
__global__ void __launch_bounds__(kWideThreads, 1)
    decode_wide_product(const __grid_constant__ CUtensorMap tokens,
                        const __grid_constant__ CUtensorMap matrix, WideTiles tiles,
                        Result result) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  using Shared = WideShared<kTokens, kRows>;
  using Sums = hopper::WideSums<kTokens, kRows>;
  constexpr int kChunks = kSteps * gpu::kSkinnyColumns / hopper::kWideColumns;
  constexpr int kRange = kChunks / hopper::kWideSplits;
  static_assert(kRange >= 1);
  auto& shared = hopper::aligned_shared<Shared>(gpu::dynamic_shared<gpu::Bits128>());
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shared::kStages; ++i) {
      hopper::init_barrier(&shared.full[i], 1);
      hopper::init_barrier(&shared.empty[i], gpu::kSkinnyWaves);
    }
    hopper::publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x >= gpu::kSkinnyThreads) {
    if (threadIdx.x > gpu::kSkinnyThreads) return;
    ask_wide<kTokens, kRows, kChunks>(&tokens, &matrix, tiles, shared);
    return;
  }
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  hopper::Ring<Shared::kStages> at;
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles.count;
       tile += static_cast<int>(gridDim.x)) {
    const int first_token = tiles.group(tile) * kTokens;
    const int64_t first_row = int64_t{tiles.row(tile)} * kRows;
    Sums sums;
    float before[Sums::kEach];
    sums.each([&](int token, int row, float, int i) {
      before[i] = result.column(first_row + row).before(first_token + token);
    });
    for (int range = 0; range < hopper::kWideSplits; ++range) {
#pragma unroll 1
      for (int i = 0; i < kRange; ++i, at.advance()) {
        hopper::wait_barrier(&shared.full[at.stage], at.phase);
        sums.multiply(shared.chunks[at.stage]);
        __syncwarp();
        if (threadIdx.x % 32 == 0) hopper::arrive(&shared.empty[at.stage]);
      }
      sums.end_range(range == 0);
    }
    sums.each([&](int token, int row, float sum, int i) {
      result.column(first_row + row).write(first_token + token, before[i], sum);
    });
  }
#endif
}

CUtensorMap wide_map(const void* data, int64_t rows, int columns, int box_rows) {
  return hopper::Matrices{data, columns, rows, columns, 1, static_cast<uint32_t>(box_rows)}
      .describe();
}

bool has_hopper(const gpu::Stream& stream) {
  return !gpu::only_portable() && hopper::processors(stream) > 0;
}

// kRows of the matrix and kTokens of the tokens make a tile; false where the shapes are others.
template <int kTokens, int kRows, class Result>
bool wide_product(gpu::Stream& stream, const DecodeMatrix& matrix, int64_t out, int in,
                  const bf16* tokens, int rows, const Result& result) {
  if (matrix.packed || rows % kTokens != 0 || out % kRows != 0 || in < 512) return false;
  visit_depth(in, [&]<int kSteps>() {
    if constexpr (kSteps >= 2) {
      constexpr int64_t kBytes = hopper::kAlignedBytes<WideShared<kTokens, kRows>>;
      const int groups = rows / kTokens;
      const int64_t tiles = out / kRows * groups;
      const auto kernel = decode_wide_product<kTokens, kRows, kSteps, Result>;
      stream.allow_shared(kernel, kBytes);
      stream.launch_early(kernel,
                          {.blocks = std::min<int64_t>(tiles, hopper::processors(stream)),
                           .threads = kWideThreads,
                           .shared_bytes = kBytes},
                          wide_map(tokens, rows, in, kTokens),
                          wide_map(matrix.data, out, in, kRows),
                          WideTiles{static_cast<int>(tiles), groups}, result);
    }
  });
  return true;
}

}  // namespace

bool stream_head(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows) {
  if (!has_hopper(stream)) return false;
  const DecodeStoreLogits logits{w.logits, p.sizes.vocabulary};
  const auto wide = [&]<int kTokens>() {
    return wide_product<kTokens, 128>(stream, p.head, p.sizes.vocabulary, p.sizes.hidden, w.normed,
                                      rows, logits);
  };
  if (rows == 32) return wide.template operator()<32>();
  if (rows == 64) return wide.template operator()<64>();
  if (rows > gpu::kSkinnyTokens) return false;
  stream_product(stream, p, p.head, p.sizes.vocabulary, p.sizes.hidden, w.normed, rows, logits);
  return true;
}

// Fewer rows are too few tiles to be worth it.
constexpr int kTiledRows = 128;
constexpr int kTokensOfTile = 32, kRowsOfTile = 64;

bool tile_project(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                  const DecodeLayer& l) {
  const int out = p.sizes.channels() + p.sizes.values();
  return has_hopper(stream) && rows == kTiledRows &&
         wide_product<kTokensOfTile, kRowsOfTile>(stream, l.qkv, out, p.sizes.hidden, w.normed,
                                                  rows, DecodeStore{w.latents, out});
}

bool tile_return(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                 const DecodeLayer& l) {
  const DecodeMerged merged{l.after_attention, w.stream, p.sizes.hidden};
  return has_hopper(stream) && rows == kTiledRows &&
         wide_product<kTokensOfTile, kRowsOfTile>(stream, l.out, p.sizes.hidden, p.sizes.queries(),
                                                  w.attended, rows, DecodeMergeProduct{merged});
}

}  // namespace tephra::zaya1
