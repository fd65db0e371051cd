// SPDX-License-Identifier: Apache-2.0
// Symmetric products for Hopper: persistent blocks over tiles of 128 x 256, as for experts'
// products (grouped_gemm_cuda.cu). Squares of 256 on the diagonal are computed whole; a tile right
// of them leaves a second time, transposed on its way through shared memory.
#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/hopper_ring.h"
#include "tephra/device/gpu/symmetric_gemm.h"

namespace tephra::gpu {
namespace {

using namespace hopper;

constexpr int kDown = kTileColumns / kTileRows;  // tiles of a square on the diagonal
constexpr int kParts = kTileColumns / 64;

struct SymmetricShape {
  int count, side, depth;
  float alpha, ratio;  // ratio: of beta to alpha

  __host__ __device__ int columns() const { return (side + kTileColumns - 1) / kTileColumns; }
  // Of one matrix: a column of tiles has kDown more than the one before.
  __host__ __device__ int tiles() const { return kDown * columns() * (columns() + 1) / 2; }
  __device__ int blocks() const { return (depth + kDepth - 1) / kDepth; }
};

struct SymmetricTile {
  int matrix, row, column;

  __device__ SymmetricTile(const SymmetricShape& shape, int tile)
      : matrix(tile / shape.tiles()), row(tile % shape.tiles()), column(0) {
    for (; row >= kDown * (column + 1); ++column) row -= kDown * (column + 1);
    row *= kTileRows;
    column *= kTileColumns;
  }
  __device__ bool mirrored() const { return row < column; }
  // Reductions begin at the tile's own columns, so that a ring of kParts stages holds what the
  // tile has of X when it begins.
  __device__ int depth(const SymmetricShape& shape, int k) const {
    const int from = shape.ratio != 0 ? column / kDepth : 0;
    return (from + k) % shape.blocks() * kDepth;
  }
};
static_assert(kParts == kRingStages && kDepth == 64);

template <bool kAcross>
__device__ void feed_symmetric(Stages& s, const CUtensorMap* map_a, const CUtensorMap* map_b,
                               const SymmetricShape& shape) {
  Position at;
  for (int i = blockIdx.x; i < shape.count * shape.tiles(); i += gridDim.x) {
    const SymmetricTile tile(shape, i);
    for (int k = 0; k < shape.blocks(); ++k, at.advance()) {
      wait_barrier(&s.empty[at.stage], at.phase ^ 1);
      uint64_t* full = &s.full[at.stage];
      expect_bytes(full, kBytesA + kBytesB);
      const int depth = tile.depth(shape, k);
      uint8_t* a = s.a[at.stage];
      uint8_t* b = s.b[at.stage];
      if constexpr (kAcross) {
        for (int j = 0; j < kTileRows / 64; ++j) {
          copy_tile(a + j * kBox, map_a, full, tile.row + 64 * j, depth, tile.matrix);
        }
        for (int j = 0; j < kParts; ++j) {
          copy_tile(b + j * kBox, map_b, full, tile.column + 64 * j, depth, tile.matrix);
        }
      } else {
        copy_tile(a, map_a, full, depth, tile.row, tile.matrix);
        copy_tile(b, map_b, full, depth, tile.column, tile.matrix);
      }
    }
  }
}

// Sums begin with what the left operand's next kParts stages, all of the ring, have at the place
// of the tile.
__device__ void begin_with_operand(float (&d)[128], Stages& s, Position at, int warpgroup,
                                   float ratio) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
#pragma unroll
  for (int part = 0; part < kParts; ++part, at.advance()) {
    wait_barrier(&s.full[at.stage], at.phase);
    const uint8_t* a = s.a[at.stage] + warpgroup * (kBytesA / 2);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int row = 16 * warp + i % 2 * 8 + lane / 4, to = 32 * part + i / 2 * 4 + i % 2 * 2;
      const float2 x = __bfloat1622float2(
          *reinterpret_cast<const __nv_bfloat162*>(unit_of(a, row, i / 2) + 4 * (lane % 4)));
      d[to] = ratio * x.x;
      d[to + 1] = ratio * x.y;
    }
  }
}

template <bool kAcross, bool kAdds>
__device__ void multiply_symmetric(Stages& s, const CUtensorMap* map_c,
                                   const SymmetricShape& shape) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  const Outlet out{s.c[warpgroup], warpgroup};
  Position at;
  for (int i = blockIdx.x; i < shape.count * shape.tiles(); i += gridDim.x) {
    const SymmetricTile tile(shape, i);
    float d[128];
    if constexpr (kAdds) begin_with_operand(d, s, at, warpgroup, shape.ratio);
    const int last = multiply_stages<kAcross, kAcross, kAdds>(d, s, at, shape.blocks(), warpgroup);
    pin(d);
    release_stage(s, last);
#pragma unroll
    for (float& value : d) value *= shape.alpha;
    const int row = tile.row + warpgroup * 64;
    store_bf16(d, out, map_c, row, tile.column, tile.matrix);
    if (tile.mirrored()) store_transposed(d, out, map_c, row, tile.column, tile.matrix);
  }
  if (threadIdx.x % kWarpgroup == 0) wait_stores<0>();
}

template <bool kAcross, bool kAdds>
__global__ void __launch_bounds__(kRingThreads, 1)
    symmetric_kernel(const __grid_constant__ CUtensorMap map_a,
                     const __grid_constant__ CUtensorMap map_b,
                     const __grid_constant__ CUtensorMap map_c,
                     const __grid_constant__ SymmetricShape shape) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  Stages& s = prepared_stages();
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == 0) feed_symmetric<kAcross>(s, &map_a, &map_b, shape);
  } else {
    take_registers<232>();
    multiply_symmetric<kAcross, kAdds>(s, &map_c, shape);
  }
#endif
}

template <bool kAcross, bool kAdds>
void launch_symmetric(Stream& stream, const Matrices& a, const Matrices& b, const Matrices& c,
                      const SymmetricShape& shape) {
  stream.allow_shared(symmetric_kernel<kAcross, kAdds>, kRingBytes);
  const int blocks = std::min(processors(stream), shape.count * shape.tiles());
  stream.launch(symmetric_kernel<kAcross, kAdds>,
                {.blocks = blocks, .threads = kRingThreads, .shared_bytes = kRingBytes},
                a.describe(), b.describe(), c.describe(), shape);
}

}  // namespace

bool symmetric_gemm_hopper(Stream& stream, const SymmetricGemm& g) {
  const int64_t columns = g.transposed ? g.side : g.depth, rows = g.transposed ? g.depth : g.side;
  const auto operand = [&](int tile) -> Matrices {
    return {g.x, columns, rows, columns, g.count, static_cast<uint32_t>(g.transposed ? 64 : tile)};
  };
  const Matrices a = operand(kTileRows), b = operand(kTileColumns);
  const Matrices c{g.c, g.side, g.side, g.side, g.count, 64};
  const SymmetricShape shape{static_cast<int>(g.count), static_cast<int>(g.side),
                             static_cast<int>(g.depth), g.alpha, g.beta / g.alpha};
  // Nothing is saved where all of it is one square on the diagonal, or where C is beta X.
  if (processors(stream) == 0 || g.side <= kTileColumns || g.depth == 0 || g.alpha == 0 ||
      !a.aligned() || !c.aligned()) {
    return false;
  }
  if (g.transposed) {
    launch_symmetric<true, false>(stream, a, b, c, shape);
  } else if (g.beta == 0) {
    launch_symmetric<false, false>(stream, a, b, c, shape);
  } else {
    launch_symmetric<false, true>(stream, a, b, c, shape);
  }
  return true;
}

}  // namespace tephra::gpu
