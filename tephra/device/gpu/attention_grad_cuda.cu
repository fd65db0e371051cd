// SPDX-License-Identifier: Apache-2.0
// Attention backward for Hopper: what is known of each query is prepared, then come the passes of
// dq and of dk and dv, and the sums of the parts in which the last were computed, if they were.
#include "tephra/device/gpu/attention_grad_hopper.h"
#include "tephra/device/gpu/quad.h"

namespace tephra::gpu {
namespace {

using namespace hopper;

constexpr int kPrepareThreads = 4 * kHalf;  // four a query

struct Prepare {
  Queries queries;
  const __nv_bfloat16 *d_o, *o;
  int64_t d_o_stride, o_stride;
  const float *lse, *dlse;
  int64_t lse_stride, dlse_stride;
};

__device__ float dot_8(uint4 a, uint4 b, float sum) {
  const auto* x = reinterpret_cast<const __nv_bfloat162*>(&a);
  const auto* y = reinterpret_cast<const __nv_bfloat162*>(&b);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 left = __bfloat1622float2(x[i]), right = __bfloat1622float2(y[i]);
    sum = fmaf(left.x, right.x, sum);
    sum = fmaf(left.y, right.y, sum);
  }
  return sum;
}

// A block for every 64 queries and head.
template <int kHead>
__global__ void __launch_bounds__(kPrepareThreads)
    prepare_queries(Prepare a, QueryBlock* blocks, QuerySpan* spans) {
  const int block = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int at = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4;
  const int row = block * kHalf + at;
  const bool there = row < a.queries.count;
  float delta = 0;
  if (there) {
    const int column = head * kHead + part * 8;  // a query's threads side by side
    const auto* x = reinterpret_cast<const uint4*>(a.d_o + row * a.d_o_stride + column);
    const auto* y = reinterpret_cast<const uint4*>(a.o + row * a.o_stride + column);
#pragma unroll
    for (int i = 0; i < kHead / 32; ++i) delta = dot_8(x[4 * i], y[4 * i], delta);
  }
  delta = quad_sum(delta);
  __shared__ int first[kHalf], last[kHalf];
  if (part == 0) {
    first[at] = there ? a.queries.first[row] : 0;
    last[at] = there ? a.queries.last[row] : 0;
    const float lse = there ? a.lse[row * a.lse_stride + head] : -INFINITY;
    if (there && a.dlse != nullptr) delta -= a.dlse[row * a.dlse_stride + head];
    QueryBlock& to = blocks[int64_t{head} * gridDim.x + block];
    to.lse2[at] = lse == -INFINITY ? INFINITY : lse * kLog2e;
    to.delta[at] = lse == -INFINITY ? 0 : delta;
    to.first[at] = first[at];
    to.last[at] = last[at];
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  QuerySpan span{INT32_MAX, 0, 0, INT32_MAX};
  for (int i = static_cast<int>(threadIdx.x); i < kHalf && block * kHalf + i < a.queries.count;
       i += 32) {
    const bool empty = first[i] >= last[i];
    if (!empty) span.begin = min(span.begin, first[i]), span.end = max(span.end, last[i]);
    span.whole_begin = max(span.whole_begin, first[i]);
    span.whole_end = min(span.whole_end, empty ? 0 : last[i]);
  }
  span = {__reduce_min_sync(~0u, span.begin), __reduce_max_sync(~0u, span.end),
          __reduce_max_sync(~0u, span.whole_begin), __reduce_min_sync(~0u, span.whole_end)};
  if (threadIdx.x > 0) return;
  blocks[int64_t{head} * gridDim.x + block].span = span;
  if (head == 0) spans[block] = span;
}

constexpr int kOrderThreads = 1024, kMostOrdered = 8192;

// One block: tiles of keys by how many blocks of queries see them. A long unit that starts last
// would keep one multiprocessor busy and all others waiting.
__global__ void __launch_bounds__(kOrderThreads)
    order_keys(const QuerySpan* spans, int blocks, int tiles, int keys, int* order) {
  __shared__ int work[kMostOrdered];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  for (int tile = thread / 32; tile < tiles; tile += kOrderThreads / 32) {
    const int key = tile * keys;
    int seen = 0;
#pragma unroll 4
    for (int block = lane; block < blocks; block += 32) {
      seen += spans[block].sees(key, keys);
    }
    seen = __reduce_add_sync(~0u, seen);
    if (lane == 0) work[tile] = seen;
  }
  __syncthreads();
  for (int tile = thread; tile < tiles; tile += kOrderThreads) {
    int before = 0;
    for (int other = 0; other < tiles; ++other) {
      before += work[other] > work[tile] || (work[other] == work[tile] && other < tile);
    }
    order[before] = tile;
  }
}

struct Parts {
  const float* parts;
  __nv_bfloat16* to;  // null when not wanted
  int64_t stride;
  bool accumulate;
};

// Four columns a thread: the parts in order, rounded once.
__global__ void sum_parts(Parts dk, Parts dv, int splits, int64_t rows, int columns) {
  const Parts& p = blockIdx.y == 0 ? dk : dv;
  const int64_t i = 4 * (int64_t{blockIdx.x} * blockDim.x + threadIdx.x), size = rows * columns;
  if (i >= size || p.to == nullptr) return;
  float4 sum = *reinterpret_cast<const float4*>(p.parts + i);
  for (int split = 1; split < splits; ++split) {
    const float4 next = *reinterpret_cast<const float4*>(p.parts + split * size + i);
    sum = {sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w};
  }
  auto* at = reinterpret_cast<__nv_bfloat162*>(p.to + i / columns * p.stride + i % columns);
  if (p.accumulate) {
    sum = {sum.x + __low2float(at[0]), sum.y + __high2float(at[0]), sum.z + __low2float(at[1]),
           sum.w + __high2float(at[1])};
  }
  at[0] = __floats2bfloat162_rn(sum.x, sum.y);
  at[1] = __floats2bfloat162_rn(sum.z, sum.w);
}

int block_count(const AttentionInput& in) {
  return static_cast<int>(2 * ((in.queries + kFull - 1) / kFull));
}

int key_tiles(const AttentionInput& in) {
  return static_cast<int>((in.keys + key_tile(in) - 1) / key_tile(in));
}

// The workspace, in its order.
struct GradSpace {
  int64_t blocks, spans, order, parts;  // bytes; parts: of dk, and again of dv

  explicit GradSpace(const AttentionInput& in)
      : blocks(int64_t{block_count(in)} * in.query_heads * int64_t{sizeof(QueryBlock)}),
        spans(int64_t{block_count(in)} * int64_t{sizeof(QuerySpan)}),
        order((4 * key_tiles(in) + 15) / 16 * 16),
        parts(key_grad_splits(in) == 1
                  ? 0
                  : 4 * key_grad_splits(in) * in.keys * in.kv_heads * in.head_dim) {}
};

void add_parts(Stream& stream, const AttentionInput& in, const AttentionGradients& g,
               const float* dk_parts, const float* dv_parts) {
  const int splits = key_grad_splits(in);
  if (splits == 1) return;
  const auto parts = [](const MatrixRowsOut& to, const float* from) -> Parts {
    return {from, static_cast<__nv_bfloat16*>(to.data), to.stride, to.accumulate};
  };
  const int64_t columns = in.kv_heads * in.head_dim;
  stream.launch(
      sum_parts, {.blocks = (in.keys * columns + 1023) / 1024, .blocks_y = 2, .threads = 256},
      parts(g.dk, dk_parts), parts(g.dv, dv_parts), splits, in.keys, static_cast<int>(columns));
}

}  // namespace

bool takes_attention_grad(const Stream& stream, const AttentionInput& in,
                          const AttentionGradients& g) {
  const auto aligned = [&](const void* data, int64_t stride) {
    return data == nullptr || query_matrix(in, data, stride, kFull).aligned();
  };
  return takes_attention(stream, in) && g.d_o.data != nullptr &&
         aligned(g.d_o.data, g.d_o.stride) && aligned(g.o.data, g.o.stride) &&
         aligned(g.dq.data, g.dq.stride) && aligned(g.dk.data, g.dk.stride) &&
         aligned(g.dv.data, g.dv.stride);
}

int64_t attention_grad_workspace(const AttentionInput& in) {
  const GradSpace space(in);
  return space.blocks + space.spans + space.order + 2 * space.parts;
}

void attention_grad_hopper(Stream& stream, const AttentionInput& in, const AttentionGradients& g,
                           void* workspace) {
  const GradSpace space(in);
  auto* at = static_cast<uint8_t*>(workspace);
  auto* blocks = reinterpret_cast<QueryBlock*>(at);
  auto* spans = reinterpret_cast<QuerySpan*>(at + space.blocks);
  auto* order = reinterpret_cast<int*>(at + space.blocks + space.spans);
  auto* dk_parts = reinterpret_cast<float*>(at + space.blocks + space.spans + space.order);
  auto* dv_parts = dk_parts + space.parts / 4;
  const Prepare prepare{queries_of(in),
                        static_cast<const __nv_bfloat16*>(g.d_o.data),
                        static_cast<const __nv_bfloat16*>(g.o.data),
                        g.d_o.stride,
                        g.o.stride,
                        static_cast<const float*>(g.lse.data),
                        static_cast<const float*>(g.dlse.data),
                        g.lse.stride,
                        g.dlse.stride};
  visit_head(in.head_dim, [&]<int kHead>() {
    stream.launch(
        prepare_queries<kHead>,
        {.blocks = block_count(in), .blocks_y = in.query_heads, .threads = kPrepareThreads},
        prepare, blocks, spans);
  });
  const int tiles = key_tiles(in);
  const bool ordered = tiles <= kMostOrdered;
  const QueryBlocks prepared{blocks, spans, block_count(in), ordered ? order : nullptr};
  if (g.dq.data != nullptr) attention_query_grad(stream, in, g, prepared);
  if (g.dk.data == nullptr && g.dv.data == nullptr) return;
  if (ordered) {
    stream.launch(order_keys, {.threads = kOrderThreads}, spans, block_count(in), tiles,
                  key_tile(in), order);
  }
  attention_key_grad(stream, in, g, prepared, dk_parts, dv_parts);
  add_parts(stream, in, g, dk_parts, dv_parts);
}

}  // namespace tephra::gpu
