// SPDX-License-Identifier: Apache-2.0
// The gradient of attention's queries for Hopper: dq = dS k, with dS = P * (do v^T - delta). The
// two warpgroups are not kept in turn as in forward: it made no difference.
#include "tephra/device/gpu/attention_grad_hopper.h"

namespace tephra::gpu::hopper {
namespace {

template <int kHead>
constexpr int kValueStages = kHead == 256 ? 1 : kKeyStages;  // what there is room for
// Warpgroups whose results pass through shared memory on their way out.
template <int kHead>
constexpr int kOutlets = kHead == 256 ? 0 : 2;

template <int kHead>
struct QueryGradShared {
  alignas(1024) uint8_t q[kFullBytes<kHead>];
  alignas(1024) uint8_t d_o[kFullBytes<kHead>];
  alignas(1024) uint8_t k[kKeyStages][kKeyBytes<kHead>];
  alignas(1024) uint8_t v[kValueStages<kHead>][kKeyBytes<kHead>];
  alignas(1024) uint8_t dq[kOutlets<kHead>][kBoxes<kHead>][kHalfBox];
  UnitBarriers ring;
};

__device__ Dealer query_grad_dealer;

// A warpgroup's 64 queries of every unit.
template <int kHead>
__device__ void add_query_gradients(QueryGradShared<kHead>& s, const CUtensorMap* dq_map,
                                    const Queries& queries, const QueryBlocks& blocks,
                                    const MatrixRowsOut& dq) {
  constexpr int kTile = kKeys<kHead>;
  const int warpgroup = static_cast<int>(threadIdx.x) / kGroup - 1;
  const bool leads = threadIdx.x % kGroup == 0;
  const float scale2 = queries.scale * kLog2e;
  const uint8_t* q = s.q + warpgroup * kHalfBox;
  const uint8_t* d_o = s.d_o + warpgroup * kHalfBox;
  Ring<kKeyStages> k;
  Ring<kValueStages<kHead>> v;
  for (uint32_t phase = 0;; phase ^= 1) {
    wait_barrier(&s.ring.q_full, phase);
    const QueryUnit u = s.ring.unit;
    if (u.row < 0) break;
    const int top = u.row + warpgroup * kHalf;
    const RowPair rows(queries, top);
    const QueryBlock& block = blocks.of(u.head, top / kHalf);
    float lse2[2], delta[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      lse2[h] = block.lse2[rows.row[h] - top];
      delta[h] = block.delta[rows.row[h] - top];
    }
    float sums[kHead / 2], p[kTile / 2], dp[kTile / 2];
    uint32_t ds[kTile / 4];
    clear(sums);
    for (int key = u.begin + (u.tiles(kTile) - 1) * kTile; key >= u.begin; key -= kTile) {
      wait_barrier(&s.ring.k_full[k.stage], k.phase);
      pin(p);
      pin(dp);
      begin_products();
      multiply_heads<kHead>(p, q, kFullBox, s.k[k.stage], kKeyBox<kHead>);
      commit_products();
      wait_barrier(&s.ring.v_full[v.stage], v.phase);
      begin_products();
      multiply_heads<kHead>(dp, d_o, kFullBox, s.v[v.stage], kKeyBox<kHead>);
      commit_products();
      wait_products<1>();
      pin(p);
#pragma unroll
      for (int i = 0; i < kTile / 2; ++i) p[i] = exp2_fast(fmaf(p[i], scale2, -lse2[i / 2 % 2]));
      if (u.masked(key, kTile)) rows.mask(p, key, 0);
      wait_products<0>();
      pin(dp);
      if (leads) arrive(&s.ring.v_empty[v.stage]);
      v.advance();
      if (u.masked(key, kTile)) rows.mask(dp, key, 0);  // values that nobody sees may be NaN
#pragma unroll
      for (int i = 0; i < kTile / 2; ++i) p[i] *= dp[i] - delta[i / 2 % 2];
      pack(ds, p);
      if (u.unheard(key, kTile)) clear_unheard<kHead>(s.k[k.stage], queries, u, key, warpgroup);
      pin(sums);
      pin(ds);
      begin_products();
      multiply_rows(sums, ds, s.k[k.stage], kKeyBox<kHead>);
      commit_products();
      wait_products<0>();
      pin(sums);
      if (leads) arrive(&s.ring.k_empty[k.stage]);
      k.advance();
    }
    arrive(&s.ring.q_empty);
#pragma unroll
    for (int i = 0; i < kHead / 2; ++i) sums[i] *= queries.scale;
    if (kOutlets<kHead> == 0 || dq.accumulate) {
      auto* to = static_cast<__nv_bfloat16*>(dq.data) + top * dq.stride + u.head * kHead;
      write_rows(sums, to, dq.stride, queries.count - top, dq.accumulate);
    } else if constexpr (kOutlets<kHead> > 0) {
      store_rows<kHead>(sums, s.dq[warpgroup], dq_map, top, u.head, warpgroup);
    }
  }
  if (leads) wait_stores<0>();
}

template <int kHead>
__global__ void __launch_bounds__(kAttentionThreads, 1) query_grad_kernel(
    const __grid_constant__ CUtensorMap q_map, const __grid_constant__ CUtensorMap k_map,
    const __grid_constant__ CUtensorMap v_map, const __grid_constant__ CUtensorMap d_o_map,
    const __grid_constant__ CUtensorMap dq_map, const __grid_constant__ Queries queries,
    const __grid_constant__ QueryBlocks blocks, const __grid_constant__ MatrixRowsOut dq) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  auto* const raw = dynamic_shared<uint8_t>();
  auto& s =
      *reinterpret_cast<QueryGradShared<kHead>*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) s.ring.init();
  __syncthreads();
  if (threadIdx.x < kGroup) {
    give_registers<40>();
    if (threadIdx.x < 32) {
      feed_units<kHead, 0, kValueStages<kHead>>(
          s, &query_grad_dealer, &k_map, &v_map, queries, [&](const QueryUnit& u) {
            expect_bytes(&s.ring.q_full, 2 * kFullBytes<kHead>);
            load_tile<kHead>(s.q, &q_map, &s.ring.q_full, u.head, u.row, kFullBox);
            load_tile<kHead>(s.d_o, &d_o_map, &s.ring.q_full, u.head, u.row, kFullBox);
          });
    }
  } else {
    take_registers<232>();
    add_query_gradients(s, &dq_map, queries, blocks, dq);
  }
#endif
}

}  // namespace

void attention_query_grad(Stream& stream, const AttentionInput& in, const AttentionGradients& g,
                          const QueryBlocks& blocks) {
  visit_head(in.head_dim, [&]<int kHead>() {
    constexpr int kBytes = sizeof(QueryGradShared<kHead>) + 1024;
    stream.allow_shared(query_grad_kernel<kHead>, kBytes);
    stream.launch(query_grad_kernel<kHead>, attention_grid(stream, kBytes),
                  query_matrix(in, in.q.data, in.q.stride, kFull).describe(),
                  key_matrix(in, in.k, kKeys<kHead>).describe(),
                  key_matrix(in, in.v, kKeys<kHead>).describe(),
                  query_matrix(in, g.d_o.data, g.d_o.stride, kFull).describe(),
                  query_matrix(in, g.dq.data, g.dq.stride, kHalf).describe(), queries_of(in),
                  blocks, g.dq);
  });
}

}  // namespace tephra::gpu::hopper
