// SPDX-License-Identifier: Apache-2.0
// Attention forward for Hopper. While the tensor cores compute the scores of the next tile of keys
// and add this one's values, a warpgroup turns scores into probabilities; the two warpgroups take
// turns at it. Powers are of two, with the scale folded into the exponent.
#include <algorithm>

#include "tephra/device/gpu/attention_hopper.h"
#include "tephra/device/gpu/quad.h"

namespace tephra::gpu {
namespace {

using namespace hopper;

// Boxes of a warpgroup's results on their way out: more than two have no room beside wide heads.
template <int kHead>
constexpr int kWayOut = std::min(kBoxes<kHead>, 2);

template <int kHead>
struct ForwardShared {
  alignas(1024) uint8_t q[kFullBytes<kHead>];
  alignas(1024) uint8_t k[kKeyStages][kKeyBytes<kHead>];
  alignas(1024) uint8_t v[kKeyStages][kKeyBytes<kHead>];
  alignas(1024) uint8_t o[2][kWayOut<kHead>][kHalfBox];
  UnitBarriers ring;
};

__device__ Dealer forward_dealer;

// What softmax knows of a thread's two rows: the largest score so far, and its own share of the sum
// of powers.
struct RowSums {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  // Scores become powers; returns by what earlier sums are to be multiplied.
  template <int kSums>
  __device__ float2 update(float (&s)[kSums], float scale2) {
    float keep[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float a = fmaxf(s[2 * h], s[2 * h + 1]), b = fmaxf(s[4 + 2 * h], s[5 + 2 * h]);
#pragma unroll
      for (int j = 2; j < kSums / 4; j += 2) {
        a = fmaxf(a, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        b = fmaxf(b, fmaxf(s[4 * j + 4 + 2 * h], s[4 * j + 5 + 2 * h]));
      }
      const float now = quad_max(fmaxf(top[h], fmaxf(a, b)));
      const float base = now == -INFINITY ? 0.0f : now * scale2;
      // Exactly one where nothing larger came: a tile that the row does not see changes no bit.
      keep[h] = top[h] == now ? 1.0f : exp2_fast(top[h] * scale2 - base);
      top[h] = now;
      float x = 0, y = 0;
#pragma unroll
      for (int j = 0; j < kSums / 4; ++j) {
        float& left = s[4 * j + 2 * h];
        float& right = s[4 * j + 2 * h + 1];
        x += left = exp2_fast(fmaf(left, scale2, -base));
        y += right = exp2_fast(fmaf(right, scale2, -base));
      }
      sum[h] = fmaf(sum[h], keep[h], x + y);
    }
    return {keep[0], keep[1]};
  }

  __device__ void finish() {
#pragma unroll
    for (int h = 0; h < 2; ++h) sum[h] = quad_sum(sum[h]);
  }
};

template <int kSums>
__device__ void scale_rows(float (&o)[kSums], float2 by) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) o[i] *= i / 2 % 2 == 0 ? by.x : by.y;
}

// Two warpgroups in turn: while one has the tensor cores, the other does the rest. The first is let
// in by the second once, at the start.
struct Turns {
  int warpgroup;
  __device__ explicit Turns(int w) : warpgroup(w) {
    if (w == 1) pass();
  }
  __device__ void take() const { sync_threads(3 + warpgroup, 2 * kGroup); }
  __device__ void pass() const { arrive_threads(3 + 1 - warpgroup, 2 * kGroup); }
};

// A warpgroup's results of one unit: o divided by the sums of powers, and their logarithms.
template <int kHead>
__device__ void store_outputs(ForwardShared<kHead>& s, float (&o)[kHead / 2], RowSums& sums,
                              const RowPair& rows, const QueryUnit& u, const Queries& queries,
                              const CUtensorMap* o_map, const MatrixRowsOut& lse_to) {
  const int warpgroup = static_cast<int>(threadIdx.x) / kGroup - 1;
  const int top = u.row + warpgroup * kHalf;
  sums.finish();
  scale_rows(
      o, {sums.sum[0] == 0 ? 0.0f : 1 / sums.sum[0], sums.sum[1] == 0 ? 0.0f : 1 / sums.sum[1]});
  store_rows<kHead>(o, s.o[warpgroup], o_map, top, u.head, warpgroup);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (threadIdx.x % 4 != 0 || rows.row[h] >= queries.count) continue;
    const float log2_sum = sums.top[h] * queries.scale * kLog2e + log2f(sums.sum[h]);
    static_cast<float*>(lse_to.data)[rows.row[h] * lse_to.stride + u.head] =
        sums.sum[h] == 0 ? -INFINITY : kLn2 * log2_sum;
  }
}

// A warpgroup's 64 queries of every unit.
template <int kHead>
__device__ void attend_tiles(ForwardShared<kHead>& s, const CUtensorMap* o_map,
                             const Queries& queries, const MatrixRowsOut& lse_to) {
  constexpr int kTile = kKeys<kHead>;
  const int warpgroup = static_cast<int>(threadIdx.x) / kGroup - 1;
  const bool leads = threadIdx.x % kGroup == 0;
  const float scale2 = queries.scale * kLog2e;
  const Turns turns(warpgroup);
  const uint8_t* q = s.q + warpgroup * kHalfBox;
  Ring<kKeyStages> k, v;
  for (uint32_t phase = 0;; phase ^= 1) {
    wait_barrier(&s.ring.q_full, phase);
    const QueryUnit u = s.ring.unit;
    if (u.row < 0) break;
    const RowPair rows(queries, u.row + warpgroup * kHalf);
    RowSums sums;
    float o[kHead / 2], scores[kTile / 2];
    uint32_t p[kTile / 4];
    clear(o);
    const auto multiply_keys = [&] {
      pin(scores);
      begin_products();
      multiply_heads<kHead>(scores, q, kFullBox, s.k[k.stage], kKeyBox<kHead>);
      commit_products();
    };
    const auto release_keys = [&] {
      if (leads) arrive(&s.ring.k_empty[k.stage]);
      k.advance();
    };
    const auto add_values = [&](int key) {
      wait_barrier(&s.ring.v_full[v.stage], v.phase);
      if (u.unheard(key, kTile)) clear_unheard<kHead>(s.v[v.stage], queries, u, key, warpgroup);
      pin(o);
      pin(p);
      begin_products();
      multiply_rows(o, p, s.v[v.stage], kKeyBox<kHead>);
      commit_products();
    };
    const auto release_values = [&] {
      if (leads) arrive(&s.ring.v_empty[v.stage]);
      v.advance();
    };
    int key = u.begin + (u.tiles(kTile) - 1) * kTile;
    if (key >= u.begin) {
      wait_barrier(&s.ring.k_full[k.stage], k.phase);
      multiply_keys();
      wait_products<0>();
      pin(scores);
      release_keys();
      if (u.masked(key, kTile)) rows.mask(scores, key, -INFINITY);
      sums.update(scores, scale2);
      pack(p, scores);
      for (key -= kTile; key >= u.begin; key -= kTile) {
        wait_barrier(&s.ring.k_full[k.stage], k.phase);
        turns.take();
        multiply_keys();
        add_values(key + kTile);
        turns.pass();
        wait_products<1>();
        pin(scores);
        release_keys();
        if (u.masked(key, kTile)) rows.mask(scores, key, -INFINITY);
        const float2 keep = sums.update(scores, scale2);
        wait_products<0>();
        pin(o);
        release_values();
        scale_rows(o, keep);
        pack(p, scores);
      }
      arrive(&s.ring.q_empty);
      add_values(u.begin);
      wait_products<0>();
      pin(o);
      release_values();
    } else {
      arrive(&s.ring.q_empty);
    }
    store_outputs(s, o, sums, rows, u, queries, o_map, lse_to);
  }
  if (leads) wait_stores<0>();
}

template <int kHead>
__global__ void __launch_bounds__(kAttentionThreads, 1)
    attention_kernel(const __grid_constant__ CUtensorMap q_map,
                     const __grid_constant__ CUtensorMap k_map,
                     const __grid_constant__ CUtensorMap v_map,
                     const __grid_constant__ CUtensorMap o_map,
                     const __grid_constant__ Queries queries,
                     const __grid_constant__ MatrixRowsOut lse) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  auto* const raw = dynamic_shared<uint8_t>();
  auto& s =
      *reinterpret_cast<ForwardShared<kHead>*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) s.ring.init();
  __syncthreads();
  if (threadIdx.x < kGroup) {
    give_registers<40>();
    if (threadIdx.x < 32) {
      feed_units<kHead, 1, kKeyStages>(
          s, &forward_dealer, &k_map, &v_map, queries, [&](const QueryUnit& u) {
            expect_bytes(&s.ring.q_full, kFullBytes<kHead>);
            load_tile<kHead>(s.q, &q_map, &s.ring.q_full, u.head, u.row, kFullBox);
          });
    }
  } else {
    take_registers<232>();
    attend_tiles(s, &o_map, queries, lse);
  }
#endif
}

}  // namespace

bool takes_attention(const Stream& stream, const AttentionInput& in) {
  return processors(stream) > 0 &&
         (in.head_dim == 64 || in.head_dim == 128 || in.head_dim == 256) && in.queries > 0 &&
         in.keys > 0 && in.queries < INT32_MAX - kFull && in.keys < INT32_MAX - kFull &&
         query_matrix(in, in.q.data, in.q.stride, kFull).aligned() &&
         key_matrix(in, in.k, kHalf).aligned() && key_matrix(in, in.v, kHalf).aligned();
}

void attention_hopper(Stream& stream, const AttentionInput& in, const MatrixRowsOut& o,
                      const MatrixRowsOut& lse) {
  visit_head(in.head_dim, [&]<int kHead>() {
    constexpr int kBytes = sizeof(ForwardShared<kHead>) + 1024;
    stream.allow_shared(attention_kernel<kHead>, kBytes);
    stream.launch(attention_kernel<kHead>, attention_grid(stream, kBytes),
                  query_matrix(in, in.q.data, in.q.stride, kFull).describe(),
                  key_matrix(in, in.k, kKeys<kHead>).describe(),
                  key_matrix(in, in.v, kKeys<kHead>).describe(),
                  query_matrix(in, o.data, o.stride, kHalf).describe(), queries_of(in), lse);
  });
}

}  // namespace tephra::gpu
