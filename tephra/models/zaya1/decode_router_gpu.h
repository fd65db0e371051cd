// SPDX-License-Identifier: Apache-2.0
// What the kernels of the router's network share: products of its narrow matrices, and the choice.
#pragma once

#include <climits>

#include "tephra/models/zaya1/decode_gpu.h"

namespace tephra::zaya1 {

// A wave has sixteen rows of a matrix at once.
inline constexpr int kRouterRows = 16;
inline constexpr int kRouterSteps = kDecodeRouter / gpu::kSkinnyStep;
inline constexpr int kRouterChains = 4;  // of sums that do not wait for each other
inline constexpr int kRouterStride = decode_shared_stride(kDecodeRouter);
inline constexpr int kRouterClasses =
    (kDecodeExperts + 1 + kRouterRows - 1) / kRouterRows * kRouterRows;
static_assert(kRouterClasses <= 32, "a lane has a class");

__device__ inline float decode_gelu(float x) { return x * (0.5f * erfcf(-x * 0.70710678f)); }

// A wave's sixteen rows times the eight tokens of x; rows(step, upper) is what a thread has of row
// g, or g + 8. Then f(token, row of the sixteen, sum) for those of the `count` tokens that a thread
// has: tokens 2t and 2t + 1 of rows g and g + 8.
template <class Rows, class F>
__device__ void router_multiply(const bf16* x, int count, const Rows& rows, const F& f) {
  const gpu::SkinnyLane lane;
  float sums[4] = {}, chains[kRouterChains][4] = {};
#pragma unroll
  for (int s = 0; s < kRouterSteps; ++s) {
    const auto token = *reinterpret_cast<const gpu::Bits128*>(x + lane.row * kRouterStride +
                                                              s * gpu::kSkinnyStep + lane.column);
    gpu::multiply_skinny(chains[s % kRouterChains], rows(s, 0), rows(s, 1), token);
  }
#pragma unroll
  for (int k = 0; k < kRouterChains; ++k) {
#pragma unroll
    for (int c = 0; c < 4; ++c) sums[c] += chains[k][c];
  }
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (pair + c % 2 < count) f(pair + c % 2, lane.row + c / 2 * 8, sums[c]);
  }
}

// Rows of a matrix go to shared memory, by so many waves: each has a row.
__device__ inline void router_fetch(const bf16* matrix, int rows, bf16* to, int waves) {
  const int at = static_cast<int>(threadIdx.x) % 32 * gpu::kWide;
#pragma unroll 4
  for (int r = static_cast<int>(threadIdx.x) / 32; r < rows; r += waves) {
    gpu::copy_to_shared(to + r * kRouterStride + at, matrix + r * kDecodeRouter + at);
  }
}

// The largest of 32 neighbours' that is a number.
__device__ inline float router_max(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  // In the order of integers: of negative numbers all bits but the sign are turned.
  const auto turn = [](int bits) { return bits < 0 ? bits ^ 0x7fffffff : bits; };
  const int key = value == value ? turn(__float_as_int(value)) : INT_MIN;
  return __int_as_float(turn(__reduce_max_sync(0xffffffffu, key)));
#else
  for (int mask = 16; mask > 0; mask /= 2) value = fmaxf(value, gpu::shuffle_xor(value, mask));
  return value;
#endif
}

struct RouterChoice {
  int expert;
  float weight;
};

// A wave has a token's logits, a lane a class; all lanes know the choice. As ops/route_gpu.cu: the
// sum is formed in the order of the classes, of equal scores the lower class is taken.
__device__ inline RouterChoice router_choose(float logit, int classes, float balancing, int told) {
  const bool own = static_cast<int>(threadIdx.x) % 32 < classes;
  const float shift = router_max(own ? logit : -INFINITY);
  const float part = own ? expf(logit - shift) : 0.0f;
  float total = 0;
#pragma unroll
  for (int c = 0; c <= kDecodeExperts; ++c) total += gpu::shuffle_from(part, c);  // 0 beyond them
  const float probability = part / total;
  const float score = own ? probability + balancing : -INFINITY;
  const float top = router_max(score);  // by all lanes
  const uint32_t tops = gpu::ballot(own && score == top);
  int best = tops != 0 ? __ffs(static_cast<int>(tops)) - 1 : 0;  // 0: no score is a number
  if (told >= 0) best = told;
  return {best, gpu::shuffle_from(probability, best)};
}

}  // namespace tephra::zaya1
