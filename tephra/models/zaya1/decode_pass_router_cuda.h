// SPDX-License-Identifier: Apache-2.0
// The block of decode_pass_cuda.cu that has the router's network: it waits for a layer's states and
// tells every other block which expert was chosen, with what weight. It does so twice: first for
// states that do not know what attention will say, as a guess, which nobody is told (so that
// replayed experts put wrong guesses to the test).
//
// All blocks wait for it both times, so what it multiplies with is in registers before the states
// come, the first matrix and a half of the second, or comes from shared memory into registers that
// the first product has done with.
#pragma once

#include "tephra/device/gpu/hopper.h"
#include "tephra/models/zaya1/decode_pass_plan_cuda.h"
#include "tephra/models/zaya1/decode_router_gpu.h"

namespace tephra::zaya1 {

struct PassRouterShared {
  alignas(16) bf16 second[kDecodeRouter * kRouterStride], last[kRouterClasses * kRouterStride];
  alignas(16) bf16 a[kDecodeRouter], b[kDecodeRouter];
  float logits[kRouterChains][kRouterClasses];
};

class PassRouter {
 public:
  __device__ PassRouter(const PassPlan& p, PassRouterShared& shared)
      : p_(p), s_(shared), time_(p.letters->time) {}

  __device__ void run() {
    for (int i = 0; i < p_.count; ++i) {
      ++time_;
      enter(i);
      RouterChoice choice;
#pragma unroll 1
      for (int turn = 0; turn < kPassTurns; ++turn) {
        fetch_first(p_.layers[i].fc1);
        choice = choose(static_cast<PassTurn>(turn));
        pass_sync();  // who chooses is not to wait behind what is fetched next
      }
      if (thread_ == 0) p_.work.chosen[i * kDecodeRows] = choice.expert;
    }
    if (thread_ == 0) p_.letters->time = time_;  // all blocks have read it: they have answered
  }

 private:
  // Each wave has two times sixteen rows of the first two matrices.
  static constexpr int W = gpu::kWide, kEach = 2;
  static_assert(kEach * kRouterRows * gpu::kSkinnyWaves == kDecodeRouter);
  // A thread's part of sixteen rows.
  struct Tile {
    gpu::Bits128 at[kRouterSteps][2];
  };

  // What a layer has to be multiplied with.
  __device__ void enter(int i) {
    const DecodeLayer& l = p_.layers[i];
    router_fetch(l.fc2, kDecodeRouter, s_.second, gpu::kSkinnyWaves);
    router_fetch(l.router_out, classes_, s_.last, gpu::kSkinnyWaves);
    gpu::close_copies();
    first_bias_ = l.fc1_bias[thread_];
    second_bias_ = l.fc2_bias[thread_];
    norm_ = gpu::load_packed<W>(l.router_norm + in_wave_ * W);
    balancing_ = in_wave_ < classes_ ? l.balancing[in_wave_] : 0.0f;
    told_ = p_.work.replayed[i * kDecodeRows];
    if (thread_ == 0 && i + 1 < p_.count) {
      for (const bf16* matrix : {p_.layers[i + 1].fc1, p_.layers[i + 1].fc2}) {
        gpu::hopper::prefetch_bytes(matrix, kDecodeRouter * kDecodeRouter * sizeof(bf16));
      }
    }
    gpu::wait_for_copies<0>();
    pass_sync();
    fetch_second(second_, 0);
  }

  __device__ void fetch_first(const bf16* matrix) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
#pragma unroll
      for (int s = 0; s < kRouterSteps; ++s) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          const int row = first_row(k) + lane_.row + upper * 8;
          first_[k].at[s][upper] = gpu::load_once(matrix + row * kDecodeRouter + column(s));
        }
      }
    }
  }
  __device__ void fetch_second(Tile& tile, int k) const {
#pragma unroll
    for (int s = 0; s < kRouterSteps; ++s) {
      fetch(tile, s, s_.second + first_row(k) * kRouterStride, s);
    }
  }
  __device__ void fetch(Tile& tile, int at, const bf16* rows, int step) const {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      tile.at[at][upper] = *reinterpret_cast<const gpu::Bits128*>(
          rows + (lane_.row + upper * 8) * kRouterStride + column(step));
    }
  }
  __device__ int first_row(int k) const { return (lane_.wave * kEach + k) * kRouterRows; }
  __device__ int column(int step) const { return step * gpu::kSkinnyStep + lane_.column; }

  // The token's columns of a step: there is one token, the others are zeros.
  __device__ gpu::Bits128 token(const bf16* x, int step) const {
    gpu::Bits128 v{};
    if (lane_.row == 0) v = *reinterpret_cast<const gpu::Bits128*>(x + column(step));
    return v;
  }

  // Sums of two tiles' rows, as router_multiply's: the lanes of column 0 have them, of row g and g
  // + 8.
  __device__ void multiply(const Tile& a, const Tile& b, const bf16* x,
                           float (&sums)[kEach][2]) const {
    float chains[kEach][kRouterChains][4] = {};
#pragma unroll
    for (int s = 0; s < kRouterSteps; ++s) {
      const gpu::Bits128 columns = token(x, s);
      gpu::multiply_skinny(chains[0][s % kRouterChains], a.at[s][0], a.at[s][1], columns);
      gpu::multiply_skinny(chains[1][s % kRouterChains], b.at[s][0], b.at[s][1], columns);
    }
#pragma unroll
    for (int c = 0; c < kEach * 2; ++c) {
      float& sum = sums[c / 2][c % 2] = 0;
#pragma unroll
      for (int k = 0; k < kRouterChains; ++k) sum += chains[c / 2][k][c % 2 * 2];
    }
  }

  // A lane of each four has sums of rows; then each thread has one, and activates it.
  __device__ void activate(const float (&sums)[kEach][2], bf16 bias, bf16* to) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kEach * 2; ++k) {
      const float other = gpu::shuffle_from(sums[k / 2][k % 2], in_wave_ % 8 * 4);
      if (in_wave_ / 8 == k) sum = other;
    }
    to[thread_] = bf16(decode_gelu(float(bf16(sum + float(bias)))));
    pass_sync();
  }

  // a = the norm of the states, when they have come; by a wave.
  __device__ void norm_states(PassTurn turn) {
    const Letters<W / 2, true> letters(p_.letters->states[turn] + in_wave_ * W / 2, time_);
    auto v = gpu::Floats<W>::of([&](int k) {
      const uint32_t bits = letters.bits[k / 2];
      return __uint_as_float(k % 2 == 0 ? bits << 16 : bits & 0xffff0000u);
    });
    float sum = 0;
#pragma unroll
    for (int k = 0; k < W; ++k) sum += v[k] * v[k];
    const float mean = gpu::lanes_sum(sum, 32) / static_cast<float>(kDecodeRouter);
    const float s = 1.0f / sqrtf(mean + p_.sizes.eps);
#pragma unroll
    for (int k = 0; k < W; ++k) v[k] *= s * float(norm_[k]);
    gpu::store(s_.a + in_wave_ * W, v);
  }

  // The first wave knows the choice, and tells it.
  __device__ RouterChoice choose(PassTurn turn) {
    if (lane_.wave == 0) norm_states(turn);
    pass_sync();
    float sums[kEach][2];
    multiply(first_[0], first_[1], s_.a, sums);
    fetch_last(first_[1]);  // where the first matrix was
    activate(sums, first_bias_, s_.b);
    fetch_second(first_[0], 1);
    multiply(second_, first_[0], s_.b, sums);
    activate(sums, second_bias_, s_.a);
    multiply_last(first_[1]);
    pass_sync();
    if (lane_.wave > 0) return {};
    float logit = 0;
#pragma unroll
    for (int k = 0; k < kRouterChains; ++k) logit += s_.logits[k][in_wave_];
    const RouterChoice choice =
        router_choose(float(bf16(logit)), classes_, balancing_, turn == kGuess ? -1 : told_);
    for (int b = in_wave_; b < kPassBlocks; b += 32) {
      post_two(p_.letters->choice[turn][b], static_cast<uint32_t>(choice.expert),
               __float_as_uint(choice.weight), time_);
    }
    return choice;
  }

  // A wave has one of the chains that the logits of sixteen classes are the sum of.
  static constexpr int kLastSteps = kRouterSteps / kRouterChains;
  static_assert(kRouterClasses / kRouterRows * kRouterChains == gpu::kSkinnyWaves);
  __device__ int chain() const { return lane_.wave % kRouterChains; }
  __device__ int first_class() const { return lane_.wave / kRouterChains * kRouterRows; }

  __device__ void fetch_last(Tile& tile) const {
#pragma unroll
    for (int s = 0; s < kLastSteps; ++s) {
      fetch(tile, s, s_.last + first_class() * kRouterStride, s * kRouterChains + chain());
    }
  }
  __device__ void multiply_last(const Tile& tile) {
    float own[4] = {};
#pragma unroll
    for (int s = 0; s < kLastSteps; ++s) {
      gpu::multiply_skinny(own, tile.at[s][0], tile.at[s][1],
                           token(s_.a, s * kRouterChains + chain()));
    }
    if (lane_.column > 0) return;
    float* to = s_.logits[chain()] + first_class() + lane_.row;
    to[0] = own[0];
    to[8] = own[2];
  }

  const PassPlan& p_;
  PassRouterShared& s_;
  gpu::SkinnyLane lane_;
  int thread_ = static_cast<int>(threadIdx.x), in_wave_ = thread_ % 32;
  int classes_ = p_.sizes.experts + 1;
  uint32_t time_;
  Tile first_[kEach], second_;
  bf16 first_bias_, second_bias_;
  gpu::Packed<W, bf16> norm_;
  float balancing_ = 0;
  int told_ = -1;
};

}  // namespace tephra::zaya1
