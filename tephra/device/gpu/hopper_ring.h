// SPDX-License-Identifier: Apache-2.0
// What the products for Hopper share: a block of 384 threads with a ring of stages for tiles of
// 128 x 256, fed by one thread and emptied by two warpgroups, and the way of a bf16 tile out.
#pragma once

#include "tephra/device/gpu/hopper.h"

namespace tephra::gpu::hopper {

inline constexpr int kTileRows = 128, kTileColumns = 256, kDepth = 64;  // of one block and stage
inline constexpr int kRingStages = 4;
inline constexpr int kBytesA = kTileRows * kDepth * 2, kBytesB = kTileColumns * kDepth * 2;
inline constexpr int kBox = 64 * 64 * 2;  // of rows of 128 bytes
inline constexpr int kSumColumns = 32;    // of a box of f32
inline constexpr int kWarpgroup = 128;
inline constexpr int kRingThreads = 3 * kWarpgroup;

struct Stages {
  alignas(1024) uint8_t a[kRingStages][kBytesA];
  alignas(1024) uint8_t b[kRingStages][kBytesB];
  alignas(1024) uint8_t c[2][2][kBox];  // of each warpgroup, on its way out
  uint64_t full[kRingStages], empty[kRingStages];
};

// The stages in a kernel's shared memory, their barriers ready. All threads take part.
inline constexpr int kRingBytes = sizeof(Stages) + 1024;
__device__ inline Stages& prepared_stages() {
  auto* const raw = dynamic_shared<uint8_t>();
  Stages& s = *reinterpret_cast<Stages*>(raw + (1024 - shared_address(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kRingStages; ++stage) {
      init_barrier(&s.full[stage], 1);
      init_barrier(&s.empty[stage], 2);  // each warpgroup that multiplies
    }
    publish_barriers();
  }
  __syncthreads();
  return s;
}

using Position = Ring<kRingStages>;

__device__ inline int tiles_of(int extent, int tile) { return (extent + tile - 1) / tile; }

// By a warpgroup that has read the stage.
__device__ inline void release_stage(Stages& s, int stage) {
  if (threadIdx.x % kWarpgroup == 0) arrive(&s.empty[stage]);
}

struct AsItArrives {
  __device__ void operator()(int, uint8_t*) const {}
};

// By as many columns as there are sums.
template <bool kAcrossA, bool kAcrossB, int kSums>
__device__ inline void multiply_16(float (&d)[kSums], uint64_t a, uint64_t b, int accumulate) {
  static_assert(kSums == 128 || kSums == 96 || kSums == 64 || kSums == 32);
  if constexpr (kSums == 128) {
    multiply_64x256x16<kAcrossA, kAcrossB>(d, a, b, accumulate);
  } else if constexpr (kSums == 96) {
    multiply_64x192x16<kAcrossA, kAcrossB>(d, a, b, accumulate);
  } else if constexpr (kSums == 64) {
    multiply_64x128x16<kAcrossA, kAcrossB>(d, a, b, accumulate);
  } else {
    multiply_64x64x16<kAcrossA, kAcrossB>(d, a, b, accumulate);
  }
}

// A warpgroup's 64 rows and all 256 columns (128 sums a thread) or the first 64: the sum of the
// products of so many stages, each released while the next is multiplied; the last one, which is
// returned, is the caller's to release. kAdds: to what d holds. `arrived(k, a)` may change the
// warpgroup's part of the left operand before it is read.
template <bool kAcrossA, bool kAcrossB, bool kAdds = false, int kSums, class Arrived = AsItArrives>
__device__ int multiply_stages(float (&d)[kSums], Stages& s, Position& at, int count, int warpgroup,
                               Arrived arrived = {}) {
  int before = 0;
  for (int k = 0; k < count; ++k, at.advance()) {
    wait_barrier(&s.full[at.stage], at.phase);
    uint8_t* a = s.a[at.stage] + warpgroup * (kBytesA / 2);
    arrived(k, a);
    const uint8_t* b = s.b[at.stage];
    const uint64_t left = kAcrossA ? tile_across(a, kBox) : tile_along(a);
    const uint64_t right = kAcrossB ? tile_across(b, kBox) : tile_along(b);
    begin_products();
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      multiply_16<kAcrossA, kAcrossB>(d, left + step * kStep<kAcrossA>,
                                      right + step * kStep<kAcrossB>, kAdds || k > 0 || step > 0);
    }
    commit_products();
    if (k > 0) {
      wait_products<1>();
      release_stage(s, before);
    }
    before = at.stage;
  }
  wait_products<0>();
  return before;
}

// A warpgroup's tile on its way out: boxes of 64 rows of 128 bytes with the copy engine's swizzle,
// one written while the other is read.
struct Outlet {
  uint8_t (*boxes)[kBox];
  int warpgroup;

  template <class Write, class Send>
  __device__ void pass(int part, Write write, Send send) const {
    uint8_t* box = boxes[part % 2];
    if (threadIdx.x % kWarpgroup == 0) wait_stores<1>();
    sync_threads(1 + warpgroup, kWarpgroup);
    write(box);
    publish_stores();
    sync_threads(1 + warpgroup, kWarpgroup);
    if (threadIdx.x % kWarpgroup == 0) {
      send(box);
      commit_stores();
    }
  }
};

// Rows from this one on of as many boxes that follow each other, as zeros, by a warpgroup that
// reads them next.
__device__ inline void clear_rows(uint8_t* boxes, int count, int from, int warpgroup) {
  for (int box = 0; box < count; ++box) {
    for (int at = from * 8 + static_cast<int>(threadIdx.x) % kWarpgroup; at < 64 * 8;
         at += kWarpgroup) {
      reinterpret_cast<uint4*>(boxes + box * kBox)[at] = {0, 0, 0, 0};
    }
  }
  publish_stores();
  sync_threads(1 + warpgroup, kWarpgroup);
}

// A warpgroup's 64 x 256 in bf16, 64 columns at a time: `write(box, i, words...)` for the tables of
// columns 8i to 8i + 15, then `send(box, column)`.
template <class Write, class Send>
__device__ void store_boxes(const float (&d)[128], const Outlet& out, Write write, Send send) {
#pragma unroll
  for (int part = 0; part < kTileColumns / 64; ++part) {
    out.pass(
        part,
        [&](uint8_t* box) {
#pragma unroll
          for (int i = 0; i < 8; i += 2) {
            const int at = 4 * (i + 8 * part);
            write(box, i, packed(d[at], d[at + 1]), packed(d[at + 2], d[at + 3]),
                  packed(d[at + 4], d[at + 5]), packed(d[at + 6], d[at + 7]));
          }
        },
        [&](uint8_t* box) { send(box, 64 * part); });
  }
}

// To these rows and columns of a matrix.
__device__ inline void store_bf16(const float (&d)[128], const Outlet& out, const CUtensorMap* map,
                                  int row, int column, int matrix = 0) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  const int table = lane / 8, in_tile = 16 * warp + 8 * (table % 2) + lane % 8;
  store_boxes(
      d, out,
      [&](uint8_t* box, int i, auto... words) {
        store_tables(unit_of(box, in_tile, i + table / 2), words...);
      },
      [&](uint8_t* box, int from) { store_tile(map, box, column + from, row, matrix); });
}

// The same at the other side of the diagonal.
__device__ inline void store_transposed(const float (&d)[128], const Outlet& out,
                                        const CUtensorMap* map, int row, int column, int matrix) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  const int table = lane / 8, unit = 2 * warp + table % 2;
  store_boxes(
      d, out,
      [&](uint8_t* box, int i, auto... words) {
        const int in_tile = 8 * (i + table / 2) + lane % 8;
        store_tables_transposed(unit_of(box, in_tile, unit), words...);
      },
      [&](uint8_t* box, int from) { store_tile(map, box, row, column + from, matrix); });
}

}  // namespace tephra::gpu::hopper
