// SPDX-License-Identifier: Apache-2.0
// What the kernels of the experts share: who chose whom, and SwiGLU.
#pragma once

#include "tephra/models/zaya1/decode_gpu.h"

namespace tephra::zaya1 {

// What rows chose, and the rows that chose one expert, in order.
struct ExpertRows {
  static constexpr int kWaves = kDecodeRows / 32;
  int chosen[kDecodeRows];
  int row[kDecodeRows];
  uint32_t present[kWaves], takes[kWaves];  // bits of classes; of rows
  int count;
};

// A bit for each class that a row chose, the last class (no expert) included. All threads take
// part.
__device__ inline uint32_t find_chosen(const volatile int32_t* chosen, int rows,
                                       ExpertRows& shared) {
  const int i = static_cast<int>(threadIdx.x), wave = i / 32;
  if (rows == 1) {  // nothing to look for: no time is lost before the matrix is asked for
    const int own = chosen[0];
    if (i == 0) shared.chosen[0] = own;
    return 1u << own;
  }
  if (wave < ExpertRows::kWaves) {
    const int own = i < rows ? chosen[i] : -1;
    shared.chosen[i] = own;
    uint32_t present = own >= 0 ? 1u << own : 0u;
    for (int mask = 16; mask > 0; mask /= 2) present |= gpu::shuffle_xor(present, mask);
    if (i % 32 == 0) shared.present[wave] = present;
  }
  __syncthreads();
  uint32_t all = 0;
  for (int w = 0; w < ExpertRows::kWaves; ++w) all |= shared.present[w];
  return all;
}

// Of the classes in `chosen` those that are experts.
__device__ inline uint32_t only_experts(uint32_t chosen, int experts) {
  return chosen & ((1u << experts) - 1);
}

// The index-th of them, -1: there is none.
__device__ inline int expert_at(uint32_t experts, int index) {
  for (int k = 0; k < index; ++k) experts &= experts - 1;  // without its lowest bit
  return __ffs(static_cast<int>(experts)) - 1;
}

// The rows of an expert. All threads take part.
__device__ inline void find_expert_rows(int rows, int expert, ExpertRows& shared) {
  const int i = static_cast<int>(threadIdx.x), wave = i / 32;
  if (rows == 1) {
    if (i == 0) {
      shared.row[0] = 0;
      shared.count = expert < 0 ? 0 : 1;
    }
    __syncthreads();
    return;
  }
  const bool mine = wave < ExpertRows::kWaves && expert >= 0 && shared.chosen[i] == expert;
  const uint32_t takes = gpu::ballot(mine);
  if (wave < ExpertRows::kWaves && i % 32 == 0) shared.takes[wave] = takes;
  __syncthreads();
  if (mine) {
    int place = __popc(takes & ((1u << (i % 32)) - 1));
    for (int w = 0; w < wave; ++w) place += __popc(shared.takes[w]);
    shared.row[place] = i;
  }
  if (i == 0) {
    shared.count = 0;
    for (int w = 0; w < ExpertRows::kWaves; ++w) shared.count += __popc(shared.takes[w]);
  }
  __syncthreads();
}

__device__ inline float decode_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// SwiGLU of two sums, rounded as the ops round.
__device__ inline bf16 decode_activated(float gate_sum, float up_sum) {
  const float gate = float(bf16(gate_sum)), up = float(bf16(up_sum));
  return bf16(gate * decode_sigmoid(gate) * up);
}

// The same products with the matrices on their way through shared memory; false when this device is
// not for it (decode_experts_cuda.cu). They have the same bits.
bool stream_expert_up(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                      const DecodeLayer& layer, const int32_t* chosen);
bool stream_expert_down(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work,
                        int rows, const DecodeLayer& layer, const int32_t* chosen);
// The same for many rows, as tiles (decode_experts_tiles_cuda.cu).
bool tile_expert_up(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                    const DecodeLayer& layer, const int32_t* chosen);
bool tile_expert_down(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                      const DecodeLayer& layer, const int32_t* chosen);

}  // namespace tephra::zaya1
