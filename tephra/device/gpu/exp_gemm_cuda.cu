// SPDX-License-Identifier: Apache-2.0
// Persistent blocks over tiles of 128 x 256, as for experts' products (grouped_gemm_cuda.cu); what
// a warpgroup has multiplied becomes exponentials in its registers, and rows are summed there.
#include "tephra/device/gpu/exp_gemm.h"
#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/device/gpu/hopper_ring.h"
#include "tephra/device/gpu/quad.h"

namespace tephra::gpu {
namespace {

using namespace hopper;

static_assert(kExpTileColumns == kTileColumns);
constexpr float kExpNear = 50.0f;

struct ExpShape {
  int rows, columns, depth;
  const int32_t* targets;
  float *sums, *shifts, *target_logits;

  __host__ __device__ int down() const { return (rows + kTileRows - 1) / kTileRows; }
  __host__ __device__ int tiles() const {
    return down() * ((columns + kTileColumns - 1) / kTileColumns);
  }
  __device__ int blocks() const { return (depth + kDepth - 1) / kDepth; }
  // Down the rows first: blocks at work together share columns.
  __device__ int row_of(int tile) const { return tile % down() * kTileRows; }
  __device__ int column_of(int tile) const { return tile / down() * kTileColumns; }
};

__device__ void feed_logits(Stages& s, const CUtensorMap* map_a, const CUtensorMap* map_b,
                            const ExpShape& shape) {
  Position at;
  for (int tile = blockIdx.x; tile < shape.tiles(); tile += gridDim.x) {
    for (int k = 0; k < shape.blocks(); ++k, at.advance()) {
      wait_barrier(&s.empty[at.stage], at.phase ^ 1);
      uint64_t* full = &s.full[at.stage];
      expect_bytes(full, kBytesA + kBytesB);
      copy_tile(s.a[at.stage], map_a, full, k * kDepth, shape.row_of(tile), 0);
      copy_tile(s.b[at.stage], map_b, full, k * kDepth, shape.column_of(tile), 0);
    }
  }
}

// A warpgroup's 64 x 256 logits to exponentials, in place. `row` and `column` are the first ones.
__device__ void take_exponentials(float (&d)[128], const ExpShape& shape, int row, int column) {
  const int lane = threadIdx.x % 32, first = 2 * (lane % 4);
  const int top = row + threadIdx.x % kWarpgroup / 32 * 16 + lane / 4;
  if (column + kTileColumns > shape.columns) {
#pragma unroll
    for (int i = 0; i < 128; ++i) {
      if (column + i / 4 * 8 + first + i % 2 >= shape.columns) d[i] = -INFINITY;
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = top + 8 * half;
    const bool there = r < shape.rows;
    const int wanted = there ? __ldg(shape.targets + r) - column : -1;
    if (wanted >= 0 && wanted < kTileColumns && wanted % 8 / 2 == lane % 4) {
      float logit = 0;
#pragma unroll
      for (int i = 0; i < 64; ++i) {
        if (i == wanted / 8 * 2 + wanted % 2) logit = d[i / 2 * 4 + 2 * half + i % 2];
      }
      shape.target_logits[r] = logit;
    }
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < 64; ++i) most = fmaxf(most, d[i / 2 * 4 + 2 * half + i % 2]);
    most = quad_max(most);
    const float shift = fabsf(most) > kExpNear ? most : 0.0f, down = -shift * kLog2e;
    float sums[4] = {};  // apart, so that additions need not wait for each other
#pragma unroll
    for (int i = 0; i < 64; ++i) {
      float& v = d[i / 2 * 4 + 2 * half + i % 2];
      v = exp2_fast(fmaf(v, kLog2e, down));
      sums[i % 4] += v;
    }
    const float sum = quad_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
    if (there && lane % 4 == 0) {
      const int64_t at = int64_t{column / kTileColumns} * shape.rows + r;
      shape.sums[at] = sum;
      shape.shifts[at] = shift;
    }
  }
}

template <bool kStore>
__device__ void multiply_logits(Stages& s, const CUtensorMap* map_e, const ExpShape& shape) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup - 1;
  const Outlet out{s.c[warpgroup], warpgroup};
  Position at;
  for (int tile = blockIdx.x; tile < shape.tiles(); tile += gridDim.x) {
    float d[128];
    const int last = multiply_stages<false, false>(d, s, at, shape.blocks(), warpgroup);
    pin(d);
    release_stage(s, last);
    const int row = shape.row_of(tile) + warpgroup * 64, column = shape.column_of(tile);
    take_exponentials(d, shape, row, column);
    if (kStore) store_bf16(d, out, map_e, row, column);  // clipped to the matrix
  }
  if (threadIdx.x % kWarpgroup == 0) wait_stores<0>();
}

template <bool kStore>
__global__ void __launch_bounds__(kRingThreads, 1)
    exp_kernel(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
               const __grid_constant__ CUtensorMap map_e, const __grid_constant__ ExpShape shape) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  Stages& s = prepared_stages();
  if (threadIdx.x < kWarpgroup) {
    give_registers<40>();
    if (threadIdx.x == 0) feed_logits(s, &map_a, &map_b, shape);
  } else {
    take_registers<232>();
    multiply_logits<kStore>(s, &map_e, shape);
  }
#endif
}

template <bool kStore>
void launch_exp(Stream& stream, const ExpGemm& g, const Matrices& a, const Matrices& b,
                const Matrices& e) {
  stream.allow_shared(exp_kernel<kStore>, kRingBytes);
  const ExpShape shape{static_cast<int>(g.rows),
                       static_cast<int>(g.columns),
                       static_cast<int>(g.depth),
                       g.targets,
                       g.sums,
                       g.shifts,
                       g.target_logits};
  const int blocks = std::min(processors(stream), shape.tiles());
  stream.launch(exp_kernel<kStore>,
                {.blocks = blocks, .threads = kRingThreads, .shared_bytes = kRingBytes},
                a.describe(), b.describe(), e.describe(), shape);
}

struct ExpMatrices {
  Matrices a, b, e;

  // Without e the map of a stands in for its own, which nobody reads then.
  explicit ExpMatrices(const ExpGemm& g)
      : a{g.a, g.depth, g.rows, g.a_stride, 1, kTileRows},
        b{g.b, g.depth, g.columns, g.b_stride, 1, kTileColumns},
        e{g.e, g.columns, g.rows, g.columns, 1, 64} {
    if (!g.e) e = a;
  }
};

}  // namespace

bool takes_exp_gemm(const Stream& stream, const ExpGemm& g) {
  const ExpMatrices m(g);
  return processors(stream) > 0 && g.rows > 0 && g.columns < (int64_t{1} << 30) &&
         g.depth % 8 == 0 && g.columns % 8 == 0 && m.a.aligned() && m.b.aligned() && m.e.aligned();
}

void exp_gemm_hopper(Stream& stream, const ExpGemm& g) {
  const ExpMatrices m(g);
  if (g.e) {
    launch_exp<true>(stream, g, m.a, m.b, m.e);
  } else {
    launch_exp<false>(stream, g, m.a, m.b, m.e);
  }
}

}  // namespace tephra::gpu
