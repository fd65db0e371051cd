// SPDX-License-Identifier: Apache-2.0
// What the attention kernels for Hopper share. A block of three warpgroups takes units of work (a
// tile of queries of one head, or a tile of keys) from a counter: one warp feeds tiles through the
// copy engine, two warpgroups multiply, 64 rows each. A unit is computed by one block, so the order
// of its sums does not depend on who takes it.
#pragma once

#include "tephra/device/gpu/attention.h"
#include "tephra/device/gpu/hopper.h"
#include "tephra/device/gpu/hopper_maps.h"

namespace tephra::gpu::hopper {

constexpr int kFull = 128;  // queries of a tile
constexpr int kHalf = 64;   // rows of a warpgroup
constexpr int kGroup = 128, kAttentionThreads = 3 * kGroup;
constexpr int kMultipliers = 2 * kGroup;
// Tiles lie in shared memory as boxes of 64 columns: rows of 128 bytes.
constexpr int kHalfBox = kHalf * 128, kFullBox = kFull * 128;
template <int kHead>
constexpr int kBoxes = kHead / 64;
template <int kHead>
constexpr int kFullBytes = kBoxes<kHead>* kFullBox;
// Keys of a tile: as many as the registers hold scores beside a head's sums.
template <int kHead>
constexpr int kKeys = kHead == 256 ? 64 : 128;
template <int kHead>
constexpr int kKeyBox = kKeys<kHead> * 128;
template <int kHead>
constexpr int kKeyBytes = kBoxes<kHead>* kKeyBox<kHead>;
constexpr float kLn2 = 0.69314718055994530942f;

struct Queries {
  const int32_t *first, *last;
  int count, heads;
  int group;  // query heads that share a KV head
  float scale;
};

// Deals units in order to whoever asks. The last block to leave sets it back: one launch at a time,
// as is so on a device with one stream.
struct Dealer {
  int next, left;
};

__device__ inline int deal(Dealer* dealer) {
  int unit = 0;
  if (threadIdx.x % 32 == 0) unit = atomicAdd(&dealer->next, 1);
  return __shfl_sync(~0u, unit, 0);
}

__device__ inline void leave(Dealer* dealer) {
  if (threadIdx.x % 32 == 0 && atomicAdd(&dealer->left, 1) == static_cast<int>(gridDim.x) - 1) {
    dealer->next = dealer->left = 0;
  }
}

// A tile of queries of one head and the keys that they see.
struct QueryUnit {
  int row;  // the first; negative: no more units
  int head;
  // Where its tiles of keys begin: at a multiple of their size, so that a query's keys fall into
  // the same tiles whatever the other queries of its tile see.
  int begin;
  int first, end;              // keys that any query sees
  int whole_begin, whole_end;  // keys that all see
  bool gaps;                   // perhaps some key in between is seen by none

  // For tiles of so many keys.
  __device__ int tiles(int keys) const { return (end - begin + keys - 1) / keys; }
  __device__ bool masked(int key, int keys) const {
    return key < whole_begin || key + keys > whole_end;
  }
  // Whether a tile has keys that no query sees: they may hold anything, even NaN.
  __device__ bool unheard(int key, int keys) const {
    return gaps || key < first || key + keys > end;
  }
};

// For tiles of so many keys; by a whole warp.
__device__ inline QueryUnit find_unit(const Queries& q, int row, int head, int keys) {
  int begin = INT32_MAX, end = 0, whole_begin = 0, whole_end = INT32_MAX;
  bool gaps = false;
  const int from = row + 4 * (threadIdx.x % 32);
  int before_first = 0, before_last = 0;
  for (int r = from > row ? from - 1 : from; r < from + 4 && r < q.count; ++r) {
    const int first = q.first[r], last = q.last[r];
    const bool empty = first >= last;
    if (!empty) begin = min(begin, first), end = max(end, last);
    whole_begin = max(whole_begin, first), whole_end = min(whole_end, empty ? 0 : last);
    const bool follows = first >= before_first && last >= before_last && first <= before_last;
    gaps |= empty || (r > row && r >= from && !follows);
    before_first = first, before_last = last;
  }
  begin = __reduce_min_sync(~0u, begin), end = __reduce_max_sync(~0u, end);
  if (end == 0) begin = 0;
  return {row,
          head,
          begin / keys * keys,
          begin,
          end,
          __reduce_max_sync(~0u, whole_begin),
          __reduce_min_sync(~0u, whole_end),
          __any_sync(~0u, gaps) != 0};
}

// Units from the last tile of queries to the first: the causal ones with the most keys come first.
__device__ inline QueryUnit next_query_unit(Dealer* dealer, const Queries& q, int keys) {
  const int tiles = (q.count + kFull - 1) / kFull, unit = deal(dealer);
  if (unit >= tiles * q.heads) return {.row = -1};
  return find_unit(q, (tiles - 1 - unit / q.heads) * kFull, unit % q.heads, keys);
}

template <int kHead>
__device__ void load_tile(uint8_t* to, const CUtensorMap* map, uint64_t* barrier, int head, int row,
                          int box) {
#pragma unroll
  for (int i = 0; i < kBoxes<kHead>; ++i) {
    copy_tile(to + i * box, map, barrier, head * kHead + 64 * i, row, 0);
  }
}

// The unit at work and the stages of its keys and values. A unit is an ordinary variable: every
// thread that has read it says so itself, so that tools that look for races see it, too.
constexpr int kKeyStages = 2;
struct UnitBarriers {
  QueryUnit unit;
  uint64_t q_full, q_empty;
  uint64_t k_full[kKeyStages], k_empty[kKeyStages], v_full[kKeyStages], v_empty[kKeyStages];

  __device__ void init() {
    init_barrier(&q_full, 1);
    init_barrier(&q_empty, kMultipliers);
    for (int stage = 0; stage < kKeyStages; ++stage) {
      init_barrier(&k_full[stage], 1);
      init_barrier(&v_full[stage], 1);
      init_barrier(&k_empty[stage], 2);  // warpgroups
      init_barrier(&v_empty[stage], 2);
    }
    publish_barriers();
  }
};

// One warp: for every unit its queries, then keys and values from the last tile to the first, keys
// kAhead tiles ahead.
template <int kHead, int kAhead, int kValueStages, class Shared, class LoadQueries>
__device__ void feed_units(Shared& s, Dealer* dealer, const CUtensorMap* k_map,
                           const CUtensorMap* v_map, const Queries& queries,
                           LoadQueries load_queries) {
  Ring<kKeyStages> k;
  Ring<kValueStages> v;
  const auto load = [](auto& ring, uint8_t* to, uint64_t* full, uint64_t* empty,
                       const CUtensorMap* map, int head, int key) {
    wait_barrier(&empty[ring.stage], ring.phase ^ 1);
    expect_bytes(&full[ring.stage], kKeyBytes<kHead>);
    load_tile<kHead>(to + ring.stage * kKeyBytes<kHead>, map, &full[ring.stage], head, key,
                     kKeyBox<kHead>);
    ring.advance();
  };
  UnitBarriers& at = s.ring;
  for (uint32_t phase = 1;; phase ^= 1) {
    const QueryUnit u = next_query_unit(dealer, queries, kKeys<kHead>);
    if (threadIdx.x == 0) {
      wait_barrier(&at.q_empty, phase);
      at.unit = u;
      if (u.row < 0) {
        arrive(&at.q_full);
      } else {
        load_queries(u);
        const int head = u.head / queries.group, tiles = u.tiles(kKeys<kHead>);
        for (int t = tiles - 1; t >= -kAhead; --t) {
          if (t >= 0)
            load(k, s.k[0], at.k_full, at.k_empty, k_map, head, u.begin + t * kKeys<kHead>);
          const int of_v = t + kAhead;
          if (of_v < tiles) {
            load(v, s.v[0], at.v_full, at.v_empty, v_map, head, u.begin + of_v * kKeys<kHead>);
          }
        }
      }
    }
    __syncwarp();
    if (u.row < 0) break;
  }
  leave(dealer);
}

// Zeros in the rows of a tile of keys that no query of the unit sees, by a warpgroup for itself:
// both write the same.
template <int kHead>
__device__ void clear_unheard(uint8_t* tile, const Queries& q, const QueryUnit& u, int key,
                              int warpgroup) {
  const int row = static_cast<int>(threadIdx.x) % kGroup;
  bool heard = key + row >= u.first && key + row < u.end;
  if (u.gaps && heard) {
    heard = false;
    for (int i = u.row; i < min(u.row + kFull, q.count); ++i) {
      heard |= key + row >= q.first[i] && key + row < q.last[i];
    }
  }
  if (!heard && row < kKeys<kHead>) {
#pragma unroll
    for (int i = 0; i < kHead / 8; ++i) {
      reinterpret_cast<uint4*>(tile + i / 8 * kKeyBox<kHead> + row * 128)[i % 8] = {0, 0, 0, 0};
    }
  }
  publish_stores();
  sync_threads(1 + warpgroup, kGroup);
}

// d = a b^T over a head, both with the head along their rows, in boxes so many bytes apart.
template <int kHead, int kSums>
__device__ void multiply_heads(float (&d)[kSums], const uint8_t* a, int a_box, const uint8_t* b,
                               int b_box) {
#pragma unroll
  for (int step = 0; step < kHead / 16; ++step) {
    const uint64_t left = tile_along(a + step / 4 * a_box) + step % 4 * kStep<false>;
    const uint64_t right = tile_along(b + step / 4 * b_box) + step % 4 * kStep<false>;
    if constexpr (kSums == 64) {
      multiply_64x128x16<false, false>(d, left, right, step > 0);
    } else {
      multiply_64x64x16<false, false>(d, left, right, step > 0);
    }
  }
}

// d += a x for a in registers, 16 columns in every four, and rows of x in boxes `box` bytes apart.
template <int kSums, int kPairs>
__device__ void multiply_rows(float (&d)[kSums], const uint32_t (&a)[kPairs], const uint8_t* x,
                              uint32_t box) {
#pragma unroll
  for (int step = 0; step < kPairs / 4; ++step) {
    const uint64_t right = tile_across(x, box) + step * kStep<true>;
    if constexpr (kSums == 128) {
      multiply_64x256x16<true>(d, a + 4 * step, right, 1);
    } else if constexpr (kSums == 64) {
      multiply_64x128x16<true>(d, a + 4 * step, right, 1);
    } else {
      multiply_64x64x16<true>(d, a + 4 * step, right, 1);
    }
  }
}

template <int kCount>
__device__ inline void pack(uint32_t (&to)[kCount], const float (&from)[2 * kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) to[i] = packed(from[2 * i], from[2 * i + 1]);
}

template <int kCount>
__device__ inline void clear(float (&values)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = 0;
}

// A thread's two rows of a warpgroup's 64 (hopper.h), and what they see.
struct RowPair {
  int row[2];
  int first[2], seen[2];  // seen: how many keys

  __device__ RowPair(const Queries& q, int top) {
    const int thread = static_cast<int>(threadIdx.x) % kGroup;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      row[h] = top + thread / 32 * 16 + thread % 32 / 4 + 8 * h;
      const bool there = row[h] < q.count;
      first[h] = there ? q.first[row[h]] : 0;
      seen[h] = there ? max(q.last[row[h]] - first[h], 0) : 0;
    }
  }

  // Scores of keys that are not seen become `value`; columns are keys from `key`.
  template <int kSums>
  __device__ void mask(float (&s)[kSums], int key, float value) const {
    const int column = key + 2 * (static_cast<int>(threadIdx.x) % 4);
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const int h = i / 2 % 2, at = column - first[h] + i / 4 * 8 + i % 2;
      if (static_cast<uint32_t>(at) >= static_cast<uint32_t>(seen[h])) s[i] = value;
    }
  }
};

// A warpgroup's 64 rows of a head from `row`, in bf16 through so many boxes of shared memory at a
// time and the copy engine, which leaves out what is past the last row.
template <int kHead, int kRoom>
__device__ void store_rows(const float (&d)[kHead / 2], uint8_t (&boxes)[kRoom][kHalfBox],
                           const CUtensorMap* map, int row, int head, int warpgroup) {
  const int thread = static_cast<int>(threadIdx.x) % kGroup, lane = thread % 32;
  const int table = lane / 8, in_tile = 16 * (thread / 32) + 8 * (table % 2) + lane % 8;
#pragma unroll
  for (int from = 0; from < kBoxes<kHead>; from += kRoom) {
    if (thread == 0) wait_stores<0>();
    sync_threads(1 + warpgroup, kGroup);
#pragma unroll
    for (int i = 0; i < 8 * kRoom; i += 2) {
      const int at = 4 * (8 * from + i);
      store_tables(unit_of(boxes[i / 8], in_tile, i % 8 + table / 2), packed(d[at], d[at + 1]),
                   packed(d[at + 2], d[at + 3]), packed(d[at + 4], d[at + 5]),
                   packed(d[at + 6], d[at + 7]));
    }
    publish_stores();
    sync_threads(1 + warpgroup, kGroup);
    if (thread == 0) {
#pragma unroll
      for (int i = 0; i < kRoom; ++i) {
        store_tile(map, boxes[i], head * kHead + 64 * (from + i), row, 0);
      }
      commit_stores();
    }
  }
}

// The same straight from the registers, added to what is there when asked to: f32 or bf16.
template <class T, int kSums>
__device__ void write_rows(const float (&d)[kSums], T* to, int64_t stride, int rows,
                           bool accumulate) {
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = thread / 32 * 16 + thread % 32 / 4 + 8 * h;
    if (row >= rows) continue;
    T* at = to + row * stride + 2 * (thread % 4);
#pragma unroll
    for (int j = 0; j < kSums / 4; ++j, at += 8) {
      float a = d[4 * j + 2 * h], b = d[4 * j + 2 * h + 1];
      if constexpr (sizeof(T) == 4) {
        *reinterpret_cast<float2*>(at) = {a, b};
      } else {
        auto* pair = reinterpret_cast<__nv_bfloat162*>(at);
        if (accumulate) a += __low2float(*pair), b += __high2float(*pair);
        *pair = __floats2bfloat162_rn(a, b);
      }
    }
  }
}

// Calls f.operator()<kHead>() for heads that there are kernels for.
template <class F>
bool visit_head(int64_t head_dim, F&& f) {
  if (head_dim == 128) return f.template operator()<128>(), true;
  if (head_dim == 256) return f.template operator()<256>(), true;
  if (head_dim == 64) return f.template operator()<64>(), true;
  return false;
}

inline Grid attention_grid(const Stream& stream, int64_t bytes) {
  return {.blocks = processors(stream), .threads = kAttentionThreads, .shared_bytes = bytes};
}

inline Queries queries_of(const AttentionInput& in) {
  return {
      in.first, in.last, static_cast<int>(in.queries), in.query_heads, in.query_heads / in.kv_heads,
      in.scale};
}

inline Matrices query_matrix(const AttentionInput& in, const void* data, int64_t stride,
                             uint32_t box_rows) {
  return {data, in.query_heads * in.head_dim, in.queries, stride, 1, box_rows};
}

inline Matrices key_matrix(const AttentionInput& in, const MatrixRows& m, uint32_t box_rows) {
  return {m.data, in.kv_heads * in.head_dim, in.keys, m.stride, 1, box_rows};
}

}  // namespace tephra::gpu::hopper
