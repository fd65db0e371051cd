// SPDX-License-Identifier: Apache-2.0
// Products of a decode step's rows with one matrix on Hopper: up to sixteen rows with a matrix that
// streams by (device/gpu/skinny_stream.h), from 32 on in tiles (device/gpu/wide.h).
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
  extern __shared__ gpu::Bits128 decode_shared[];
  auto& shared = *reinterpret_cast<Shared*>(decode_shared);
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

template <int kTokens>
struct WideShared {
  static constexpr int kStages = 192 * 1024 / sizeof(hopper::WideChunk<kTokens>);
  hopper::WideChunk<kTokens> chunks[kStages];
  uint64_t full[kStages], empty[kStages];
};

template <class T>
__device__ T& aligned_shared(gpu::Bits128* room) {
  auto* bytes = reinterpret_cast<std::byte*>(room);
  return *reinterpret_cast<T*>(bytes + (1024 - hopper::shared_address(bytes) % 1024) % 1024);
}
template <class T>
constexpr int64_t kAlignedBytes = sizeof(T) + 1024;

// A block goes from tile to tile; one thread asks for chunks of both operands.
template <int kTokens, int kSteps, class Result>
__global__ void __launch_bounds__(kWideThreads, 1)
    decode_wide_product(const __grid_constant__ CUtensorMap tokens,
                        const __grid_constant__ CUtensorMap matrix, int tiles, Result result) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  using Chunk = hopper::WideChunk<kTokens>;
  constexpr int kChunks = kSteps * gpu::kSkinnyColumns / hopper::kWideColumns;
  constexpr int kRange = kChunks / hopper::kWideSplits;
  constexpr int kStages = WideShared<kTokens>::kStages;
  static_assert(kRange >= 1);
  extern __shared__ gpu::Bits128 decode_shared[];
  auto& shared = aligned_shared<WideShared<kTokens>>(decode_shared);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      hopper::init_barrier(&shared.full[i], 1);
      hopper::init_barrier(&shared.empty[i], gpu::kSkinnyWaves);
    }
    hopper::publish_barriers();
  }
  __syncthreads();
  const int step = static_cast<int>(gridDim.x), first = static_cast<int>(blockIdx.x);
  if (threadIdx.x >= gpu::kSkinnyThreads) {
    if (threadIdx.x > gpu::kSkinnyThreads) return;
    const int count = first < tiles ? ((tiles - 1 - first) / step + 1) * kChunks : 0;
    const auto ask_rows = [&](int i, int stage) {
      hopper::expect_bytes(&shared.full[stage], sizeof(Chunk::rows) + sizeof(Chunk::tokens));
      hopper::copy_tile(shared.chunks[stage].rows, &matrix, &shared.full[stage],
                        i % kChunks * hopper::kWideColumns,
                        (first + i / kChunks * step) * hopper::kWideRows, 0);
    };
    const auto ask_tokens = [&](int i, int stage) {
      hopper::copy_tile(shared.chunks[stage].tokens, &tokens, &shared.full[stage],
                        i % kChunks * hopper::kWideColumns, 0, 0);
    };
    const int ahead = count < kStages ? count : kStages;
    for (int i = 0; i < ahead; ++i) ask_rows(i, i);
    gpu::wait_for_kernel_ahead();
    gpu::let_next_kernel_start();
    for (int i = 0; i < ahead; ++i) ask_tokens(i, i);
    hopper::Ring<kStages> at;
    for (int i = ahead; i < count; ++i, at.advance()) {
      hopper::wait_barrier(&shared.empty[at.stage], at.phase);
      ask_rows(i, at.stage);
      ask_tokens(i, at.stage);
    }
    return;
  }
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  hopper::Ring<kStages> at;
  for (int tile = first; tile < tiles; tile += step) {
    hopper::WideSums<kTokens> sums;
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
    sums.each([&](int token, int row, float sum) {
      const auto column = result.column(int64_t{tile} * hopper::kWideRows + row);
      column.write(token, column.before(token), sum);
    });
  }
#endif
}

// Calls f.operator()<kTokens, kSteps>() and says true where tiles are for this product.
template <class F>
bool visit_wide(const DecodeMatrix& matrix, int64_t out, int in, int rows, F&& f) {
  if (matrix.packed || rows < 32 || out % hopper::kWideRows != 0 || in < 512) return false;
  visit_depth(in, [&]<int kSteps>() {
    if constexpr (kSteps >= 2) {
      if (rows == 32) return f.template operator()<32, kSteps>();
      if (rows == 64) return f.template operator()<64, kSteps>();
      TEPHRA_ASSERT(rows == 128, "rows of a step are a power of two");
      f.template operator()<128, kSteps>();
    }
  });
  return true;
}

CUtensorMap wide_map(const void* data, int64_t rows, int columns, int box_rows) {
  return hopper::Matrices{data, columns, rows, columns, 1, static_cast<uint32_t>(box_rows)}
      .describe();
}

bool has_hopper(const gpu::Stream& stream) {
  return !gpu::using_portable_gemm() && hopper::processors(stream) > 0;
}

template <class Result>
bool wide_product(gpu::Stream& stream, const DecodeMatrix& matrix, int64_t out, int in,
                  const bf16* tokens, int rows, const Result& result) {
  return visit_wide(matrix, out, in, rows, [&]<int kTokens, int kSteps>() {
    constexpr int64_t kBytes = kAlignedBytes<WideShared<kTokens>>;
    const int64_t tiles = out / hopper::kWideRows;
    const auto kernel = decode_wide_product<kTokens, kSteps, Result>;
    stream.allow_shared(kernel, kBytes);
    stream.launch_early(kernel,
                        {.blocks = std::min<int64_t>(tiles, hopper::processors(stream)),
                         .threads = kWideThreads,
                         .shared_bytes = kBytes},
                        wide_map(tokens, rows, in, rows),
                        wide_map(matrix.data, out, in, hopper::kWideRows), static_cast<int>(tiles),
                        result);
  });
}

}  // namespace

bool stream_head(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows) {
  if (!has_hopper(stream)) return false;
  const DecodeStoreLogits logits{w.logits, p.sizes.vocabulary};
  if (rows <= gpu::kSkinnyTokens) {
    stream_product(stream, p, p.head, p.sizes.vocabulary, p.sizes.hidden, w.normed, rows, logits);
    return true;
  }
  return wide_product(stream, p.head, p.sizes.vocabulary, p.sizes.hidden, w.normed, rows, logits);
}

}  // namespace tephra::zaya1
