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
  extern __shared__ uint8_t raw[];
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

// A warpgroup's 64 x 256 in bf16, to so many rows and columns of a matrix.
__device__ inline void store_bf16(const float (&d)[128], const Outlet& out, const CUtensorMap* map,
                                  int row, int column, int matrix = 0) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  const int table = lane / 8, in_tile = 16 * warp + 8 * (table % 2) + lane % 8;
#pragma unroll
  for (int part = 0; part < kTileColumns / 64; ++part) {
    out.pass(
        part,
        [&](uint8_t* box) {
#pragma unroll
          for (int i = 0; i < 8; i += 2) {
            const int unit = i + table / 2, at = 4 * (i + 8 * part);
            store_tables(box + in_tile * 128 + 16 * (unit ^ in_tile % 8), packed(d[at], d[at + 1]),
                         packed(d[at + 2], d[at + 3]), packed(d[at + 4], d[at + 5]),
                         packed(d[at + 6], d[at + 7]));
          }
        },
        [&](uint8_t* box) { store_tile(map, box, column + 64 * part, row, matrix); });
  }
}

// The same at the other side of the diagonal.
__device__ inline void store_transposed(const float (&d)[128], const Outlet& out,
                                        const CUtensorMap* map, int row, int column, int matrix) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x % kWarpgroup / 32;
  const int table = lane / 8, unit = 2 * warp + table % 2;
#pragma unroll
  for (int part = 0; part < kTileColumns / 64; ++part) {
    out.pass(
        part,
        [&](uint8_t* box) {
#pragma unroll
          for (int i = 0; i < 8; i += 2) {
            const int in_tile = 8 * (i + table / 2) + lane % 8, at = 4 * (i + 8 * part);
            store_tables_transposed(box + in_tile * 128 + 16 * (unit ^ in_tile % 8),
                                    packed(d[at], d[at + 1]), packed(d[at + 2], d[at + 3]),
                                    packed(d[at + 4], d[at + 5]), packed(d[at + 6], d[at + 7]));
          }
        },
        [&](uint8_t* box) { store_tile(map, box, row, column + 64 * part, matrix); });
  }
}

}  // namespace tephra::gpu::hopper
