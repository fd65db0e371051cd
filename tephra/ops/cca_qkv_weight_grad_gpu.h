// SPDX-License-Identifier: Apache-2.0
// The gradient of the second convolution's weights: products of dy and of the first convolution
// over tokens. A block has 64 inputs of a head, both taps, and a stretch of tokens, some at a time.
#pragma once

#include "tephra/ops/cca_qkv_gpu.h"

namespace tephra::kernel::cca {

inline constexpr int kStepTokens = 64;
inline constexpr int kSliceInputs = 64;
inline constexpr int kBiasRow = kStepTokens + 1;

struct WeightArgs {
  HeadRows dy, z;
  const int32_t* start;
  const bf16 *weight0, *bias0;
  int stretch;
  int stretches;
  float* parts;  // [head][stretch][d][taps * d]
};

// Shared memory of a block: dy of a step and of the next, the first convolution of a step. Rows are
// so long that four tokens of a quad meet different banks.
template <int kDim>
struct alignas(16) WeightStep {
  static constexpr int kOutWords = kDim / 2 + 4, kInWords = kSliceInputs / 2 + 4;
  uint32_t dy[2][kStepTokens][kOutWords], u[kStepTokens + 2][kInWords];
  int before[kStepTokens];  // the row of u at the token before
};

// dy of tokens from t0 on, zeros from `end` on; on its way when this returns.
template <int kDim>
__device__ void begin_dy(uint32_t (&to)[kStepTokens][WeightStep<kDim>::kOutWords],
                         const HeadRows& dy, int head, int t0, int end) {
  constexpr int kUnits = kDim / 8;
  const int unit = static_cast<int>(threadIdx.x) % kUnits;
#pragma unroll
  for (int r = static_cast<int>(threadIdx.x) / kUnits; r < kStepTokens;
       r += kTileThreads / kUnits) {
    auto* place = reinterpret_cast<Bits128*>(to[r] + unit * 4);
    if (t0 + r < end) {
      gpu::copy_to_shared(place, dy.rows[t0 + r] + head * kDim + unit * 8);
    } else {
      *place = Bits128{};
    }
  }
  gpu::close_copies();
}

// What a thread brings of a step's latents: eight channels of some tokens and of the two before
// them, which the first convolution sees.
struct InputLoads {
  static constexpr int kUnits = kSliceInputs / 8, kEach = kStepTokens * kUnits / kTileThreads;
  Bits128 z[kEach + 2];
  int32_t start[kEach + 1];

  __device__ static int unit() { return static_cast<int>(threadIdx.x) % kUnits; }
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kUnits * kEach; }

  // Of tokens from t0 on; `input` is the thread's first channel.
  __device__ void load(const WeightArgs& a, int input, int t0) {
    const int first = t0 + row();
#pragma unroll
    for (int i = 0; i < kEach + 2; ++i) z[i] = a.z.at(first + i - 2, input);
#pragma unroll
    for (int i = 0; i <= kEach; ++i) {
      const int t = first + i - 1;
      start[i] = t >= 0 && t < a.z.tokens ? a.start[t] : -1;
    }
  }
  // The first convolution at token i - 1 of the thread's, which is token t of all.
  __device__ Bits128 convolved(const DepthwiseTaps& taps, int i, int t, int tokens) const {
    return t >= 0 && t < tokens ? taps.convolved(z[i], z[i + 1], start[i] == t) : Bits128{};
  }
};

template <int kDim>
__device__ void fill_inputs(WeightStep<kDim>& s, const WeightArgs& a, const DepthwiseTaps& taps,
                            const InputLoads& loads, int input, int t0) {
  const int first = loads.row();
  const auto put = [&](int r, const Bits128& v) {
    *reinterpret_cast<Bits128*>(s.u[r] + loads.unit() * 4) = v;
  };
#pragma unroll
  for (int i = 0; i < loads.kEach; ++i) {
    const int r = first + i;
    put(r + 1, loads.convolved(taps, i + 1, t0 + r, a.z.tokens));
    if (loads.unit() == 0) s.before[r] = loads.start[i + 1] == t0 + r ? kBiasRow : r;
  }
  if (first > 0) return;
  put(0, loads.convolved(taps, 0, t0 - 1, a.z.tokens));
  put(kBiasRow, load_bits(a.bias0 + input));
}

// What a warp has of a slice: a tap and half of the outputs.
template <int kDim>
struct WarpShare {
  static constexpr int kOutputs = kDim / 2;
  int tap, output;

  __device__ WarpShare() {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    tap = warp / 2;
    output = warp % 2 * kOutputs;
  }
};

// Sums of a warp: outputs 16 m + 2 g and the next, of inputs 16 (n / 2) + 2 (2 t + e) + n % 2.
template <int kDim>
struct WeightSums {
  static constexpr int kM = WarpShare<kDim>::kOutputs / 16, kN = kSliceInputs / 8;
  float at[kM][kN][4] = {};
};

// The terms of two channels at a quad's four tokens, for two operands.
struct TokenPairs {
  uint32_t even[2], odd[2];

  template <int kWords>
  __device__ TokenPairs(const uint32_t (*table)[kWords], const int (&rows)[4], int word) {
    const uint32_t a = table[rows[0]][word], b = table[rows[1]][word];
    const uint32_t c = table[rows[2]][word], d = table[rows[3]][word];
    even[0] = low_halves(a, b), even[1] = low_halves(c, d);
    odd[0] = high_halves(a, b), odd[1] = high_halves(c, d);
  }
};

template <int kDim>
__device__ void multiply_step(const WeightStep<kDim>& s, int buffer, WeightSums<kDim>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const WarpShare<kDim> own;
  const int out_word = own.output / 2 + g;
#pragma unroll 1
  for (int k = 0; k < kStepTokens; k += 16) {
    const int rows[4] = {k + 2 * t, k + 2 * t + 1, k + 2 * t + 8, k + 2 * t + 9};
    int seen[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) seen[i] = own.tap == 1 ? rows[i] + 1 : s.before[rows[i]];
    uint32_t left[sums.kM][4];
#pragma unroll
    for (int m = 0; m < sums.kM; ++m) {
      const TokenPairs p(s.dy[buffer], rows, out_word + 8 * m);
      left[m][0] = p.even[0], left[m][1] = p.odd[0];
      left[m][2] = p.even[1], left[m][3] = p.odd[1];
    }
#pragma unroll
    for (int n = 0; n < sums.kN; n += 2) {
      const TokenPairs p(s.u, seen, g + 4 * n);
#pragma unroll
      for (int m = 0; m < sums.kM; ++m) {
        gpu::multiply_16x8x16(sums.at[m][n], left[m], p.even);
        gpu::multiply_16x8x16(sums.at[m][n + 1], left[m], p.odd);
      }
    }
  }
}

// A thread has four neighbouring inputs of each output.
template <int kDim>
__device__ void write_part(const WeightSums<kDim>& sums, float* part) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const WarpShare<kDim> own;
  float* to = part + ((own.output + 2 * g) * kTaps + own.tap) * kDim + 4 * t;
#pragma unroll
  for (int m = 0; m < sums.kM; ++m) {
#pragma unroll
    for (int low = 0; low < 2; ++low) {
#pragma unroll
      for (int n = 0; n < sums.kN; n += 2) {
        const auto &even = sums.at[m][n], &odd = sums.at[m][n + 1];
        gpu::Floats<4> four;
        four[0] = even[2 * low], four[1] = odd[2 * low];
        four[2] = even[2 * low + 1], four[3] = odd[2 * low + 1];
        gpu::store(to + (16 * m + low) * kTaps * kDim + 8 * n, four);
      }
    }
  }
}

template <int kDim>
__device__ void run_stretch(WeightStep<kDim>& step, const WeightArgs& a, int head, int slice,
                            int number) {
  const int input = head * kDim + slice * kSliceInputs + InputLoads::unit() * 8;
  const int begin = number * a.stretch, rest = begin + a.stretch;
  const int end = rest < a.z.tokens ? rest : a.z.tokens;
  WeightSums<kDim> sums;
  InputLoads loads;
  begin_dy<kDim>(step.dy[0], a.dy, head, begin, end);
  loads.load(a, input, begin);
  const DepthwiseTaps taps(a.weight0, a.bias0, input);
  int buffer = 0;
  for (int t0 = begin; t0 < end; t0 += kStepTokens) {
    __syncthreads();  // the step before is multiplied
    fill_inputs(step, a, taps, loads, input, t0);
    gpu::wait_for_copies<0>();
    __syncthreads();
    if (t0 + kStepTokens < end) {
      begin_dy<kDim>(step.dy[1 - buffer], a.dy, head, t0 + kStepTokens, end);
      loads.load(a, input, t0 + kStepTokens);
    }
    multiply_step(step, buffer, sums);
    buffer = 1 - buffer;
  }
  const int64_t part = int64_t{head} * a.stretches + number;
  write_part(sums, a.parts + part * kDim * kTaps * kDim + slice * kSliceInputs);
}

// Tokens of a stretch: by the shape, so many that thirteen a head do most of a step.
inline int64_t stretch_of(int64_t tokens) {
  constexpr int64_t kStretches = 13, kLeast = 256, kMultiple = 64;
  const int64_t each = gpu::blocks_for(tokens, kStretches);
  return std::max(kLeast, gpu::blocks_for(each, kMultiple) * kMultiple);
}

}  // namespace tephra::kernel::cca
