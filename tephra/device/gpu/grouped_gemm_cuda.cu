// SPDX-License-Identifier: Apache-2.0
// The grouped product for Hopper. A persistent block of 384 threads computes tiles of 128 x 256:
// one thread feeds a ring of stages through the copy engine, two warpgroups multiply 64 x 256 each,
// and results leave through the copy engine again, which adds gradients in the L2 cache (once for
// each element, so in one order); what they are added to is asked for while the last operands come.
// Rows past an expert's end are computed and not stored; in the weight gradient, where they would
// be summed, they are zeroed in shared memory. Widths need not be whole tiles: past the edges the
// copy engine reads zeros and writes nothing. Weight gradients of experts with many rows have a
// kernel of their own (weight_gradient_cuda.cu).
#include <type_traits>

#include "tephra/device/gpu/grouped_gemm.h"
#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/hopper_ring.h"

namespace tephra::gpu {
namespace {

using namespace hopper;

struct Shape {
  int experts;
  int out_rows;  // rows of an expert's weight gradient
  int columns;
  int depth;       // of the reduction, where all experts share it
  int64_t stride;  // of c
  bool accumulate;
};

// Rows of tiles that are dealt before the next ones: what they and all columns need stays in the
// L2 cache.
constexpr int kBand = 16;

// The tiles of all experts' rows in a fixed order, dealt to blocks in turn: in bands of rows, down
// a band's rows first, so that blocks at work together share columns.
class RowTiles {
 public:
  static constexpr int width = kTileColumns;

  __device__ RowTiles(const int32_t* offsets, const Shape& shape)
      : offsets_(offsets),
        experts_(shape.experts),
        columns_(tiles_of(shape.columns, kTileColumns)),
        local_(static_cast<int>(blockIdx.x) - static_cast<int>(gridDim.x)) {
    end_ = __ldg(offsets);
    enter(0);
  }

  __device__ bool advance() {
    for (local_ += static_cast<int>(gridDim.x); local_ >= down_ * columns_; enter(expert + 1)) {
      if (expert + 1 >= experts_) return false;
      local_ -= down_ * columns_;
    }
    const int top = local_ / (kBand * columns_) * kBand, rows_here = min(kBand, down_ - top);
    const int at = local_ - top * columns_;
    row = (top + at % rows_here) * kTileRows;
    column = at / rows_here * kTileColumns;
    return true;
  }

  int expert = 0, begin = 0, rows = 0;  // the expert's rows in the row matrices
  int row = 0, column = 0;              // the tile in its output

 private:
  __device__ void enter(int e) {
    expert = e;
    begin = end_;
    end_ = __ldg(offsets_ + e + 1);
    rows = end_ - begin;
    down_ = tiles_of(rows, kTileRows);
  }

  const int32_t* offsets_;
  int experts_, columns_, local_, down_ = 0, end_ = 0;
};

// The tiles of all experts' weight gradients, row after row, dealt to blocks in turn. Where the
// last round would leave most blocks idle, its tiles are dealt in quarters, 64 columns each.
class WeightTiles {
 public:
  __device__ WeightTiles(const int32_t* offsets, const Shape& shape)
      : offsets_(offsets),
        columns_(tiles_of(shape.columns, kTileColumns)),
        tiles_(columns_ * tiles_of(shape.out_rows, kTileRows)),
        next_(static_cast<int>(blockIdx.x)) {
    const int all = tiles_ * shape.experts, blocks = static_cast<int>(gridDim.x);
    const int last = all % blocks;
    whole_ = 4 * last <= blocks ? all - last : all;
    end_ = whole_ + 4 * (all - whole_);
  }

  __device__ bool advance() {
    if (next_ >= end_) return false;
    const int quarter = max(0, next_ - whole_), tile = min(next_, whole_) + quarter / 4;
    width = next_ < whole_ ? kTileColumns : kTileColumns / 4;
    next_ += static_cast<int>(gridDim.x);
    expert = tile / tiles_;
    begin = __ldg(offsets_ + expert);
    rows = __ldg(offsets_ + expert + 1) - begin;
    row = tile % tiles_ / columns_ * kTileRows;
    column = tile % columns_ * kTileColumns + quarter % 4 * width;
    return true;
  }

  int expert = 0, begin = 0, rows = 0;  // the expert's rows in the row matrices
  int row = 0, column = 0, width = 0;   // the tile in its output

 private:
  const int32_t* offsets_;
  int columns_, tiles_, next_, whole_, end_;
};

template <GroupedProduct kProduct>
using TilesOf =
    std::conditional_t<kProduct == GroupedProduct::weight_gradient, WeightTiles, RowTiles>;

// Which operands have the reduction across their rows.
template <GroupedProduct kProduct>
constexpr bool kAcrossA = kProduct == GroupedProduct::weight_gradient;
template <GroupedProduct kProduct>
constexpr bool kAcrossB = kProduct != GroupedProduct::output;

template <GroupedProduct kProduct>
__device__ int blocks_of(const Shape& shape, int rows) {
  const int depth = kProduct == GroupedProduct::weight_gradient ? rows : shape.depth;
  return tiles_of(depth, kDepth);
}

// With the operands of stage k, a part of what the tile is added to: over its last two stages,
// late enough that the cache keeps it, early enough that it has come when it is needed.
__device__ void fetch_sums(const CUtensorMap* map_c, const WeightTiles& tile, int k, int blocks) {
  const int stages = min(blocks, 2), at = k - (blocks - stages), boxes = tile.width / kSumColumns;
  if (at < 0) return;
  for (int box = boxes * at / stages; box < boxes * (at + 1) / stages; ++box) {
    for (int half = 0; half < 2; ++half) {
      fetch_tile(map_c, tile.column + kSumColumns * box, tile.row + 64 * half, tile.expert);
    }
  }
}

// One thread: fills the stages with the operands of this block's tiles.
template <GroupedProduct kProduct>
__device__ void feed(Stages& s, const CUtensorMap* map_a, const CUtensorMap* map_b,
                     const CUtensorMap* map_c, const int32_t* offsets, const Shape& shape) {
  constexpr bool kRagged = kProduct != GroupedProduct::weight_gradient;
  TilesOf<kProduct> tile(offsets, shape);
  Position at;
  while (tile.advance()) {
    const int blocks = blocks_of<kProduct>(shape, tile.rows);
    for (int k = 0; k < blocks; ++k, at.advance()) {
      wait_barrier(&s.empty[at.stage], at.phase ^ 1);
      uint64_t* full = &s.full[at.stage];
      expect_bytes(full, kBytesA + tile.width * kDepth * 2);
      uint8_t* a = s.a[at.stage];
      uint8_t* b = s.b[at.stage];
      const int depth = k * kDepth, row_of_depth = tile.begin + depth;
      if constexpr (kAcrossA<kProduct>) {
        for (int i = 0; i < 2; ++i) {
          copy_tile(a + i * kBox, map_a, full, tile.row + 64 * i, row_of_depth, 0);
        }
      } else {
        copy_tile(a, map_a, full, depth, tile.begin + tile.row, 0);
      }
      if constexpr (kAcrossB<kProduct>) {
        for (int i = 0; i < tile.width / 64; ++i) {
          copy_tile(b + i * kBox, map_b, full, tile.column + 64 * i, kRagged ? depth : row_of_depth,
                    kRagged ? tile.expert : 0);
        }
      } else {
        copy_tile(b, map_b, full, depth, tile.column, tile.expert);
      }
      if constexpr (!kRagged) {
        if (shape.accumulate) fetch_sums(map_c, tile, k, blocks);
      }
    }
  }
}

// The last rows of an expert, straight from the registers.
__device__ void store_some_bf16(const float (&d)[128], __nv_bfloat16* c, int64_t stride, int rows,
                                int columns) {
  const int lane = threadIdx.x % 32, top = threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = top + 8 * half;
    if (row >= rows) continue;
    __nv_bfloat16* to = c + row * stride + 2 * (lane % 4);
#pragma unroll
    for (int j = 0; j < 32; ++j) {
      if (8 * j >= columns) break;
      *reinterpret_cast<uint32_t*>(to + 8 * j) =
          packed(d[4 * j + 2 * half], d[4 * j + 2 * half + 1]);
    }
  }
}

// 64 rows in f32, 32 columns at a time, to these of a matrix, or added to them.
template <int kSums>
__device__ void store_f32(const float (&d)[kSums], const Outlet& out, const CUtensorMap* map,
                          int row, int column, int matrix, bool accumulate) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
#pragma unroll
  for (int part = 0; part < 2 * kSums / kSumColumns; ++part) {
    out.pass(
        part,
        [&](uint8_t* box) {
#pragma unroll
          for (int i = 0; i < 8; ++i) {  // four times two columns, of two rows
            const int in_tile = 16 * warp + i % 2 * 8 + lane / 4;
            const int unit = i / 2 * 2 + lane % 4 / 2, at = 4 * (4 * part + i / 2) + i % 2 * 2;
            *reinterpret_cast<float2*>(unit_of(box, in_tile, unit) + lane % 2 * 8) = {d[at],
                                                                                      d[at + 1]};
          }
        },
        [&](uint8_t* box) {
          if (accumulate) {
            add_tile(map, box, column + kSumColumns * part, row, matrix);
          } else {
            store_tile(map, box, column + kSumColumns * part, row, matrix);
          }
        });
  }
}

// A warpgroup's part of a tile of rows.
template <GroupedProduct kProduct>
__device__ void multiply_tile(Stages& s, Position& at, const RowTiles& tile, const Outlet& out,
                              const CUtensorMap* map_c, const Shape& shape, void* c) {
  const int blocks = blocks_of<kProduct>(shape, tile.rows);
  const int row = tile.row + out.warpgroup * 64;
  if (row >= tile.rows) {  // nothing to compute
    for (int k = 0; k < blocks; ++k, at.advance()) {
      wait_barrier(&s.full[at.stage], at.phase);
      release_stage(s, at.stage);
    }
    return;
  }
  float d[128];
  release_stage(
      s, multiply_stages<kAcrossA<kProduct>, kAcrossB<kProduct>>(d, s, at, blocks, out.warpgroup));
  if (tile.rows - row >= 64) {
    store_bf16(d, out, map_c, tile.begin + row, tile.column);
  } else {
    store_some_bf16(
        d, static_cast<__nv_bfloat16*>(c) + int64_t{tile.begin + row} * shape.stride + tile.column,
        shape.stride, tile.rows - row, shape.columns - tile.column);
  }
}

// The same of a weight gradient's tile, which has twice as many columns as a thread has sums.
template <int kSums>
__device__ void multiply_weights(Stages& s, Position& at, const WeightTiles& tile,
                                 const Outlet& out, const CUtensorMap* map_c, bool accumulate) {
  float d[kSums] = {};  // what an expert without rows has
  const int blocks = tiles_of(tile.rows, kDepth);
  const int last =
      multiply_stages<true, true>(d, s, at, blocks, out.warpgroup, [&](int k, uint8_t* a) {
        const int rows = tile.rows - k * kDepth;
        if (rows < kDepth) clear_rows(a, 1, rows, out.warpgroup);
      });
  if (blocks > 0) release_stage(s, last);
  store_f32(d, out, map_c, tile.row + out.warpgroup * 64, tile.column, tile.expert, accumulate);
}

// Two warpgroups: multiply what arrives, and store.
template <GroupedProduct kProduct>
__device__ void multiply_tiles(Stages& s, const CUtensorMap* map_c, const int32_t* offsets,
                               const Shape& shape, void* c) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  const Outlet out{s.c[warpgroup], warpgroup};
  TilesOf<kProduct> tile(offsets, shape);
  Position at;
  while (tile.advance()) {
    if constexpr (kProduct != GroupedProduct::weight_gradient) {
      multiply_tile<kProduct>(s, at, tile, out, map_c, shape, c);
    } else if (tile.rows == 0 && shape.accumulate) {  // nothing to add
    } else if (tile.width == kTileColumns) {
      multiply_weights<128>(s, at, tile, out, map_c, shape.accumulate);
    } else {
      multiply_weights<32>(s, at, tile, out, map_c, shape.accumulate);
    }
  }
  if (threadIdx.x % kWarpgroup == 0) wait_stores<0>();
}

template <GroupedProduct kProduct>
__global__ void __launch_bounds__(kRingThreads, 1)
    grouped_kernel(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b,
                   const __grid_constant__ CUtensorMap map_c, const int32_t* offsets,
                   const __grid_constant__ Shape shape, void* c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  Stages& s = prepared_stages();
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == 0) feed<kProduct>(s, &map_a, &map_b, &map_c, offsets, shape);
  } else {
    take_registers<232>();
    multiply_tiles<kProduct>(s, &map_c, offsets, shape, c);
  }
#endif
}

template <GroupedProduct kProduct>
bool launch_grouped(Stream& stream, const GroupedGemm& g, int blocks) {
  const bool weights = kProduct == GroupedProduct::weight_gradient;
  const bool output = kProduct == GroupedProduct::output;
  const int64_t columns = output ? g.out : g.in, depth = output ? g.in : g.out;
  const Matrices a{g.a, depth, g.rows, g.a_stride, 1, kAcrossA<kProduct> ? 64 : kTileRows};
  const Matrices b = weights
                         ? Matrices{g.b, g.in, g.rows, g.b_stride, 1, 64}
                         : Matrices{g.b, g.in, g.out, g.in, g.experts, output ? kTileColumns : 64};
  const Matrices c = weights ? Matrices{g.c, g.in, g.out, g.in, g.experts, 64, true}
                             : Matrices{g.c, columns, g.rows, g.c_stride, 1, 64};
  if (!a.aligned() || !b.aligned() || !c.aligned()) return false;
  const Shape shape{g.experts,
                    static_cast<int>(g.out),
                    static_cast<int>(columns),
                    static_cast<int>(depth),
                    g.c_stride,
                    g.accumulate};

  stream.allow_shared(grouped_kernel<kProduct>, kRingBytes);
  stream.launch(grouped_kernel<kProduct>,
                {.blocks = blocks, .threads = kRingThreads, .shared_bytes = kRingBytes},
                a.describe(), b.describe(), c.describe(), g.offsets, shape, g.c);
  return true;
}

}  // namespace

bool grouped_gemm_in_tiles(Stream& stream, const GroupedGemm& g, int processors) {
  switch (g.product) {
    case GroupedProduct::output:
      return launch_grouped<GroupedProduct::output>(stream, g, processors);
    case GroupedProduct::input_gradient:
      return launch_grouped<GroupedProduct::input_gradient>(stream, g, processors);
    default:
      return launch_grouped<GroupedProduct::weight_gradient>(stream, g, processors);
  }
}

bool grouped_gemm_hopper(Stream& stream, const GroupedGemm& g) {
  const int count = processors(stream);
  if (count == 0 || g.rows == 0 || g.in % 8 != 0 || g.out % 8 != 0) return false;
  if (g.product == GroupedProduct::weight_gradient && weight_gradient_in_turns(stream, g, count)) {
    return true;
  }
  return grouped_gemm_in_tiles(stream, g, count);
}

}  // namespace tephra::gpu
