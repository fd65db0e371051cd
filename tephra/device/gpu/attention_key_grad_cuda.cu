// SPDX-License-Identifier: Apache-2.0
// The gradients of attention's keys and values for Hopper: dv = P^T do, dk = dS^T q. A unit is a
// tile of keys of one KV head; queries stream past it, 64 at a time, every head that shares it in
// turn. Scores are computed transposed, so that what they become is in registers as the next
// products want it; those of the next queries are under way while this one's gradients are added.
#include "tephra/device/gpu/attention_grad_hopper.h"

namespace tephra::gpu::hopper {
namespace {

template <int kHead>
constexpr int kQueryStages = kHead == 256 ? 2 : 4;  // what there is room for
template <int kHead>
constexpr int kStageBytes = kBoxes<kHead>* kHalfBox;  // 64 queries

struct KeyUnit {
  int key;  // the first; negative: no more units
  int head;
  int split;
  int steps;  // blocks of queries that see any of its keys, once for every head
};

template <int kHead>
struct KeyGradShared {
  static constexpr int kStages = kQueryStages<kHead>;
  alignas(1024) uint8_t k[kKeyBytes<kHead>];
  alignas(1024) uint8_t v[kKeyBytes<kHead>];
  alignas(1024) uint8_t q[kStages][kStageBytes<kHead>];
  alignas(1024) uint8_t d_o[kStages][kStageBytes<kHead>];
  alignas(128) QueryBlock rows[kStages];
  KeyUnit unit;
  uint64_t key_full, key_empty, full[kStages], empty[kStages];

  __device__ void init() {
    init_barrier(&key_full, 1);
    init_barrier(&key_empty, kMultipliers);
    for (int i = 0; i < kStages; ++i) {
      init_barrier(&full[i], 1);
      init_barrier(&empty[i], kMultipliers);
    }
    publish_barriers();
  }
};

struct KeyShape {
  int keys, heads, splits;
  int heads_each;  // query heads of a split
  float scale;
};

__device__ Dealer key_grad_dealer;

// By a whole warp.
template <int kHead>
__device__ KeyUnit next_key_unit(const KeyShape& shape, const QueryBlocks& blocks) {
  const int unit = deal(&key_grad_dealer), place = unit / (shape.heads * shape.splits);
  if (place * kKeys<kHead> >= shape.keys) return {.key = -1};
  const int *order = blocks.key_order, lane = static_cast<int>(threadIdx.x);
  const int key = (order != nullptr ? order[place] : place) * kKeys<kHead>;
  int seen = 0;
  for (int block = lane; block < blocks.count; block += 32) {
    seen += blocks.spans[block].sees(key, kKeys<kHead>);
  }
  return {key, unit % shape.heads, unit / shape.heads % shape.splits,
          __reduce_add_sync(~0u, seen) * shape.heads_each};
}

// One warp: for every unit its keys and values, then the queries that see any of them.
template <int kHead>
__device__ void feed_key_units(KeyGradShared<kHead>& s, const CUtensorMap* q_map,
                               const CUtensorMap* k_map, const CUtensorMap* v_map,
                               const CUtensorMap* d_o_map, const KeyShape& shape,
                               const QueryBlocks& blocks) {
  const int lane = static_cast<int>(threadIdx.x);
  Ring<kQueryStages<kHead>> at;
  for (uint32_t phase = 1;; phase ^= 1) {
    const KeyUnit u = next_key_unit<kHead>(shape, blocks);
    if (lane == 0) {
      wait_barrier(&s.key_empty, phase);
      s.unit = u;
      if (u.key < 0) {
        arrive(&s.key_full);
      } else {
        expect_bytes(&s.key_full, 2 * kKeyBytes<kHead>);
        load_tile<kHead>(s.k, k_map, &s.key_full, u.head, u.key, kKeyBox<kHead>);
        load_tile<kHead>(s.v, v_map, &s.key_full, u.head, u.key, kKeyBox<kHead>);
      }
    }
    __syncwarp();
    if (u.key < 0) break;
    const int head = (u.head * shape.splits + u.split) * shape.heads_each;
    for (int from = 0; from < blocks.count; from += 32) {
      QuerySpan span{};
      if (from + lane < blocks.count) span = blocks.spans[from + lane];
      uint32_t see = __ballot_sync(~0u, span.sees(u.key, kKeys<kHead>));
      for (; lane == 0 && see != 0; see &= see - 1) {
        const int block = from + __ffs(static_cast<int>(see)) - 1;
        for (int h = head; h < head + shape.heads_each; ++h, at.advance()) {
          uint64_t* full = &s.full[at.stage];
          wait_barrier(&s.empty[at.stage], at.phase ^ 1);
          expect_bytes(full, 2 * kStageBytes<kHead> + sizeof(QueryBlock));
          load_tile<kHead>(s.q[at.stage], q_map, full, h, block * kHalf, kHalfBox);
          copy_bytes(&s.rows[at.stage], &blocks.of(h, block), full, sizeof(QueryBlock));
          load_tile<kHead>(s.d_o[at.stage], d_o_map, full, h, block * kHalf, kHalfBox);
        }
      }
      __syncwarp();
    }
  }
  leave(&key_grad_dealer);
}

// For queries (columns): p = 2^(scale2 * p - lse2).
__device__ void to_probabilities(float (&p)[32], const float* lse2, float scale2) {
  const int column = 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
  for (int i = 0; i < 32; i += 4) {
    const float2 of = *reinterpret_cast<const float2*>(lse2 + column + 2 * i);
    p[i] = exp2_fast(fmaf(p[i], scale2, -of.x));
    p[i + 1] = exp2_fast(fmaf(p[i + 1], scale2, -of.y));
    p[i + 2] = exp2_fast(fmaf(p[i + 2], scale2, -of.x));
    p[i + 3] = exp2_fast(fmaf(p[i + 3], scale2, -of.y));
  }
}

// p *= dp - delta
__device__ void to_score_gradients(float (&p)[32], const float (&dp)[32], const float* delta) {
  const int column = 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
  for (int i = 0; i < 32; i += 4) {
    const float2 of = *reinterpret_cast<const float2*>(delta + column + 2 * i);
    p[i] *= dp[i] - of.x;
    p[i + 1] *= dp[i + 1] - of.y;
    p[i + 2] *= dp[i + 2] - of.x;
    p[i + 3] *= dp[i + 3] - of.y;
  }
}

// Where keys (rows) are not seen by queries (columns).
__device__ void mask_queries(float (&d)[32], const QueryBlock& block, int key) {
  const int column = 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int query = column + i / 4 * 8 + i % 2, at = key + i / 2 % 2 * 8;
    if (at < block.first[query] || at >= block.last[query]) d[i] = 0;
  }
}

template <int kSums>
__device__ void store_key_rows(const float (&d)[kSums], const MatrixRowsOut& to, int64_t row,
                               int head, int rows, int splits) {
  if (to.data == nullptr) return;
  const int64_t at = row * to.stride + head * 2 * kSums;
  if (splits == 1) {
    write_rows(d, static_cast<__nv_bfloat16*>(to.data) + at, to.stride, rows, to.accumulate);
  } else {
    write_rows(d, static_cast<float*>(to.data) + at, to.stride, rows, false);
  }
}

// A warpgroup's share of every unit: 64 keys, or of keys whose sums are too wide for one, all 64 in
// one of the two.
template <int kHead, bool kOfKeys, bool kOfValues>
__device__ void add_key_gradients(KeyGradShared<kHead>& s, const KeyShape& shape,
                                  const MatrixRowsOut& dk_to, const MatrixRowsOut& dv_to) {
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  const int half = kOfKeys && kOfValues ? static_cast<int>(threadIdx.x) / kGroup - 1 : 0;
  const float scale2 = shape.scale * kLog2e;
  const uint8_t* k = s.k + half * kHalfBox;
  const uint8_t* v = s.v + half * kHalfBox;
  Ring<kQueryStages<kHead>> at;
  for (uint32_t phase = 0;; phase ^= 1) {
    wait_barrier(&s.key_full, phase);
    const KeyUnit u = s.unit;
    if (u.key < 0) break;
    const int top = u.key + half * kHalf, key = top + thread / 32 * 16 + thread % 32 / 4;
    float dk[kOfKeys ? kHead / 2 : 1], dv[kOfValues ? kHead / 2 : 1], p[32], dp[32];
    uint32_t p_packed[16], ds_packed[16];
    clear(dk);
    clear(dv);
    int before = -1;
    for (int step = 0; step < u.steps; ++step, at.advance()) {
      wait_barrier(&s.full[at.stage], at.phase);
      const QueryBlock& rows = s.rows[at.stage];
      const bool masked = rows.span.masked(u.key, kKeys<kHead>);
      if constexpr (kOfKeys && kOfValues) wait_products<1>();  // the last dv: registers are short
      pin(p);
      pin(dp);
      begin_products();
      multiply_heads<kHead>(p, k, kKeyBox<kHead>, s.q[at.stage], kHalfBox);
      commit_products();
      if constexpr (kOfKeys) {
        multiply_heads<kHead>(dp, v, kKeyBox<kHead>, s.d_o[at.stage], kHalfBox);
        commit_products();
      }
      wait_products<kOfKeys ? 1 : 0>();  // the last gradients, and these scores
      pin(p);
      if (before >= 0) arrive(&s.empty[before]);
      before = at.stage;
      to_probabilities(p, rows.lse2, scale2);
      if (masked) mask_queries(p, rows, key);
      wait_products<0>();
      if constexpr (kOfValues) pack(p_packed, p);
      if constexpr (kOfKeys) {
        pin(dp);
        if (masked) mask_queries(dp, rows, key);  // values that nobody sees may be NaN
        to_score_gradients(p, dp, rows.delta);
        pack(ds_packed, p);
        pin(dk);
        pin(ds_packed);
      }
      if constexpr (kOfValues) {
        pin(dv);
        pin(p_packed);
      }
      begin_products();
      if constexpr (kOfValues) {
        multiply_rows(dv, p_packed, s.d_o[at.stage], kHalfBox);
        commit_products();
      }
      if constexpr (kOfKeys) {
        multiply_rows(dk, ds_packed, s.q[at.stage], kHalfBox);
        commit_products();
      }
    }
    wait_products<0>();
    pin(dk);
    pin(dv);
    if (before >= 0) arrive(&s.empty[before]);
    arrive(&s.key_empty);
    const int64_t row = int64_t{u.split} * shape.keys + top;
    const int rows = shape.keys - top;
    if constexpr (kOfKeys) {
#pragma unroll
      for (int i = 0; i < kHead / 2; ++i) dk[i] *= shape.scale;
      store_key_rows(dk, dk_to, row, u.head, rows, shape.splits);
    }
    if constexpr (kOfValues) store_key_rows(dv, dv_to, row, u.head, rows, shape.splits);
  }
}

template <int kHead>
__global__ void __launch_bounds__(kAttentionThreads, 1) key_grad_kernel(
    const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
    const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap d_o_map,
    const __grid_constant__ KeyShape shape, const __grid_constant__ QueryBlocks blocks,
    const __grid_constant__ MatrixRowsOut dk, const __grid_constant__ MatrixRowsOut dv) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  auto* const raw = dynamic_shared<uint8_t>();
  auto& s =
      *reinterpret_cast<KeyGradShared<kHead>*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) s.init();
  __syncthreads();
  if (threadIdx.x < kGroup) {
    give_registers<24>();
    if (threadIdx.x < 32) feed_key_units(s, &q_map, &k_map, &v_map, &d_o_map, shape, blocks);
  } else {
    take_registers<240>();
    if constexpr (kHead < 256) {
      add_key_gradients<kHead, true, true>(s, shape, dk, dv);
    } else if (threadIdx.x < 2 * kGroup) {
      add_key_gradients<kHead, true, false>(s, shape, dk, dv);
    } else {
      add_key_gradients<kHead, false, true>(s, shape, dk, dv);
    }
  }
#endif
}

}  // namespace

int key_tile(const AttentionInput& in) { return in.head_dim == 256 ? kKeys<256> : kKeys<128>; }

int key_grad_splits(const AttentionInput& in) {
  constexpr int64_t kEnoughUnits = 240;  // nearly two for each multiprocessor of an H200
  const int group = in.query_heads / in.kv_heads;
  const int64_t units = (in.keys + key_tile(in) - 1) / key_tile(in) * in.kv_heads;
  int splits = 1;
  while (splits < group && (group % splits != 0 || units * splits < kEnoughUnits)) ++splits;
  return splits;
}

void attention_key_grad(Stream& stream, const AttentionInput& in, const AttentionGradients& g,
                        const QueryBlocks& blocks, float* dk_parts, float* dv_parts) {
  const int splits = key_grad_splits(in);
  const KeyShape shape{static_cast<int>(in.keys), in.kv_heads, splits,
                       in.query_heads / in.kv_heads / splits, in.scale};
  const auto to = [&](const MatrixRowsOut& grad, float* parts) -> MatrixRowsOut {
    if (splits == 1 || grad.data == nullptr) return grad;
    return {parts, in.kv_heads * in.head_dim};
  };
  visit_head(in.head_dim, [&]<int kHead>() {
    constexpr int kBytes = sizeof(KeyGradShared<kHead>) + 1024;
    stream.allow_shared(key_grad_kernel<kHead>, kBytes);
    stream.launch(key_grad_kernel<kHead>, attention_grid(stream, kBytes),
                  query_matrix(in, in.q.data, in.q.stride, kHalf).describe(),
                  key_matrix(in, in.k, kKeys<kHead>).describe(),
                  key_matrix(in, in.v, kKeys<kHead>).describe(),
                  query_matrix(in, g.d_o.data, g.d_o.stride, kHalf).describe(), shape, blocks,
                  to(g.dk, dk_parts), to(g.dv, dv_parts));
  });
}

}  // namespace tephra::gpu::hopper
