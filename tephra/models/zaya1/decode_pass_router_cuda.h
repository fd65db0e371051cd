// SPDX-License-Identifier: Apache-2.0
// The block of decode_pass_cuda.cu that has the router's network: it waits for a layer's states and
// tells every other block which expert was chosen, with what weight. It does so twice: first for
// states that do not know what attention will say, as a guess, which nobody is told (so that
// replayed experts put wrong guesses to the test).
#pragma once

#include "tephra/device/gpu/hopper.h"
#include "tephra/models/zaya1/decode_pass_plan_cuda.h"
#include "tephra/models/zaya1/decode_router_gpu.h"

namespace tephra::zaya1 {

struct PassRouterShared {
  alignas(16) bf16 second[kDecodeRouter * kRouterStride], last[kRouterClasses * kRouterStride];
  alignas(16) bf16 a[gpu::kSkinnyRows * kRouterStride], b[gpu::kSkinnyRows * kRouterStride];
  bf16 logits[kRouterClasses];
  float weight;
  int32_t chosen;
};

// Each wave has two times sixteen rows; the first matrix is in registers.
__device__ inline void run_router(const PassPlan& p, PassRouterShared& shared) {
  constexpr int W = gpu::kWide, kEach = 2;
  static_assert(kEach * kRouterRows * gpu::kSkinnyWaves == kDecodeRouter);
  const gpu::SkinnyLane lane;
  const int thread = static_cast<int>(threadIdx.x), in_wave = thread % 32;
  const int classes = p.sizes.experts + 1, first = lane.wave * kEach * kRouterRows;
  uint32_t time = p.letters->time;
  for (int i = 0; i < p.count; ++i) {
    const DecodeLayer& l = p.layers[i];
    ++time;
    router_fetch(l.fc2, kDecodeRouter, shared.second, gpu::kSkinnyWaves);
    router_fetch(l.router_out, classes, shared.last, gpu::kSkinnyWaves);
    gpu::close_copies();
    gpu::Bits128 matrix[kEach][2][kRouterSteps];
#pragma unroll
    for (int k = 0; k < kEach * 2; ++k) {
      const bf16* row = l.fc1 + (first + k * 8 + lane.row) * kDecodeRouter;
#pragma unroll
      for (int s = 0; s < kRouterSteps; ++s) {
        matrix[k / 2][k % 2][s] = gpu::load_once(row + s * gpu::kSkinnyStep + lane.column);
      }
    }
    const bf16 first_bias = l.fc1_bias[thread], second_bias = l.fc2_bias[thread];
    const auto norm = gpu::load_packed<W>(l.router_norm + in_wave * W);
    const float balancing = in_wave < classes ? l.balancing[in_wave] : 0.0f;
    const int told = p.work.replayed[i * kDecodeRows];
    if (thread == 0 && i + 1 < p.count) {
      for (const bf16* matrix : {p.layers[i + 1].fc1, p.layers[i + 1].fc2}) {
        gpu::hopper::prefetch_bytes(matrix, kDecodeRouter * kDecodeRouter * sizeof(bf16));
      }
    }
#pragma unroll 1
    for (int turn = 0; turn < kPassTurns; ++turn) {
      if (lane.wave == 0) {
        const Letters<W / 2, true> letters(p.letters->states[turn] + in_wave * W / 2, time);
        auto v = gpu::Floats<W>::of([&](int k) {
          const uint32_t bits = letters.bits[k / 2];
          return __uint_as_float(k % 2 == 0 ? bits << 16 : bits & 0xffff0000u);
        });
        float sum = 0;
#pragma unroll
        for (int k = 0; k < W; ++k) sum += v[k] * v[k];
        const float mean = gpu::lanes_sum(sum, 32) / static_cast<float>(kDecodeRouter);
        const float s = 1.0f / sqrtf(mean + p.sizes.eps);
#pragma unroll
        for (int k = 0; k < W; ++k) v[k] *= s * float(norm[k]);
        gpu::store(shared.a + in_wave * W, v);
      }
      gpu::wait_for_copies<0>();
      pass_sync();
      // A lane of each four has sums of rows, `own`; then each has one.
      const auto activate = [&](const float(&own)[kEach][2], bf16 bias, bf16* to) {
        float sum = 0;
#pragma unroll
        for (int k = 0; k < kEach * 2; ++k) {
          const float other = gpu::shuffle_from(own[k / 2][k % 2], in_wave % 8 * 4);
          if (in_wave / 8 == k) sum = other;
        }
        to[thread] = bf16(decode_gelu(float(bf16(sum + float(bias)))));
        pass_sync();
      };
      const auto in_shared = [&](const bf16* of) {
        return [of, &lane](int step, int upper) {
          return *reinterpret_cast<const gpu::Bits128*>(
              of + (lane.row + upper * 8) * kRouterStride + step * gpu::kSkinnyStep + lane.column);
        };
      };
      float own[kEach][2] = {};
      const auto keep = [&](int k) {
        return [&own, k](int, int r, float value) { (r < 8 ? own[k][0] : own[k][1]) = value; };
      };
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        router_multiply(
            shared.a, 1, [&](int step, int upper) { return matrix[k][upper][step]; }, keep(k));
      }
      activate(own, first_bias, shared.b);
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int begin = first + k * kRouterRows;
        router_multiply(shared.b, 1, in_shared(shared.second + begin * kRouterStride), keep(k));
      }
      activate(own, second_bias, shared.a);
      if (lane.wave > 0) continue;
#pragma unroll
      for (int begin = 0; begin < kRouterClasses; begin += kRouterRows) {
        router_multiply(shared.a, 1, in_shared(shared.last + begin * kRouterStride),
                        [&](int, int r, float value) { shared.logits[begin + r] = bf16(value); });
      }
      __syncwarp();
      router_choose(shared.logits, classes, balancing, turn == kGuess ? -1 : told, &shared.weight,
                    &shared.chosen);
      __syncwarp();
      for (int b = in_wave; b < kPassBlocks; b += 32) {
        post_two(p.letters->choice[turn][b], static_cast<uint32_t>(shared.chosen),
                 __float_as_uint(shared.weight), time);
      }
    }
    if (thread == 0) p.work.chosen[i * kDecodeRows] = shared.chosen;
    pass_sync();  // the last matrix has been read
  }
  if (thread == 0) p.letters->time = time;  // all blocks have read it: they have answered
}

}  // namespace tephra::zaya1
