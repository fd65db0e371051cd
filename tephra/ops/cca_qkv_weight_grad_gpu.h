// SPDX-License-Identifier: Apache-2.0
// The gradient of the second convolution's weights: products of dy and of the first convolution
// over tokens. A block has 64 outputs of a head, both taps, and a stretch of tokens, some at a
// time.
#pragma once

#include "tephra/ops/cca_qkv_gpu.h"

namespace tephra::kernel::cca {

inline constexpr int kStepTokens = 32;
inline constexpr int kSliceOutputs = 64;
inline constexpr int kBiasRow = kStepTokens + 1;

struct WeightArgs {
  HeadRows dy, z;
  const int32_t* start;
  const bf16 *weight0, *bias0;
  int64_t stretch;
  int stretches;
  float* parts;  // [head][stretch][d][taps * d]
};

// Shared memory of a block. Rows are so long that four tokens of a quad meet different banks.
template <int kDim>
struct alignas(16) WeightStep {
  static constexpr int kOutWords = kSliceOutputs / 2 + 4, kInWords = kDim / 2 + 4;
  uint32_t dy[kStepTokens][kOutWords], u[kStepTokens + 2][kInWords];
  int before[kStepTokens];  // the row of u at the token before

  __device__ static void put(uint32_t* row, int unit, const Bits128& v) {
    *reinterpret_cast<Bits128*>(row + unit * 4) = v;
  }
};

// What a thread brings of a step: eight channels of some tokens of dy and of z, and of the two
// before them what the first convolution sees.
template <int kDim>
struct WeightLoads {
  static constexpr int kOutUnits = kSliceOutputs / 8, kInUnits = kDim / 8;
  static constexpr int kOutEach = kStepTokens * kOutUnits / kTileThreads;
  static constexpr int kInEach = kStepTokens * kInUnits / kTileThreads;
  Bits128 dy[kOutEach], z[kInEach + 2];
  int32_t start[kInEach + 1];

  __device__ static int out_unit() { return static_cast<int>(threadIdx.x) % kOutUnits; }
  __device__ static int out_row() { return static_cast<int>(threadIdx.x) / kOutUnits * kOutEach; }
  __device__ static int in_unit() { return static_cast<int>(threadIdx.x) % kInUnits; }
  __device__ static int in_row() { return static_cast<int>(threadIdx.x) / kInUnits * kInEach; }

  // Of tokens from t0 on; `output` and `input` are the thread's first channels.
  __device__ void load(const WeightArgs& a, int output, int input, int64_t t0, int64_t end) {
#pragma unroll
    for (int i = 0; i < kOutEach; ++i) {
      const int64_t t = t0 + out_row() + i;
      dy[i] = t < end ? a.dy.at(t, output) : Bits128{};
    }
    const int64_t first = t0 + in_row();
#pragma unroll
    for (int i = 0; i < kInEach + 2; ++i) z[i] = a.z.at(first + i - 2, input);
#pragma unroll
    for (int i = 0; i <= kInEach; ++i) {
      const int64_t t = first + i - 1;
      start[i] = t >= 0 && t < a.z.tokens ? a.start[t] : -1;
    }
  }
  // The first convolution at token i - 1 of the thread's, which is token t of all.
  __device__ Bits128 convolved(const DepthwiseTaps& taps, int i, int64_t t, int64_t tokens) const {
    return t >= 0 && t < tokens ? taps.convolved(z[i], z[i + 1], start[i] == t) : Bits128{};
  }
};

template <int kDim>
__device__ void fill_step(WeightStep<kDim>& s, const WeightArgs& a, const DepthwiseTaps& taps,
                          const WeightLoads<kDim>& loads, int input, int64_t t0) {
  using Loads = WeightLoads<kDim>;
#pragma unroll
  for (int i = 0; i < Loads::kOutEach; ++i) {
    s.put(s.dy[Loads::out_row() + i], Loads::out_unit(), loads.dy[i]);
  }
  const int unit = Loads::in_unit(), first = Loads::in_row();
#pragma unroll
  for (int i = 0; i < Loads::kInEach; ++i) {
    const int r = first + i;
    s.put(s.u[r + 1], unit, loads.convolved(taps, i + 1, t0 + r, a.z.tokens));
    if (unit == 0) s.before[r] = loads.start[i + 1] == t0 + r ? kBiasRow : r;
  }
  if (first > 0) return;
  s.put(s.u[0], unit, loads.convolved(taps, 0, t0 - 1, a.z.tokens));
  s.put(s.u[kBiasRow], unit, load_bits(a.bias0 + input));
}

// What a warp has of a slice: a tap, and of narrow heads half of the outputs, else half of the
// inputs.
template <int kDim>
struct WarpShare {
  static constexpr int kOutputs = kDim == 64 ? 32 : 64, kInputs = 64;
  int tap, output, input;

  __device__ WarpShare() {
    const int warp = static_cast<int>(threadIdx.x) / 32, half = warp % 2;
    tap = warp / 2;
    output = kDim == 64 ? half * kOutputs : 0;
    input = kDim == 64 ? 0 : half * kInputs;
  }
};

// Sums of a warp: outputs 16 m + 2 g and the next, of inputs 16 (n / 2) + 2 (2 t + e) + n % 2.
template <int kDim>
struct WeightSums {
  static constexpr int kM = WarpShare<kDim>::kOutputs / 16, kN = WarpShare<kDim>::kInputs / 8;
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
__device__ void multiply_step(const WeightStep<kDim>& s, WeightSums<kDim>& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const WarpShare<kDim> own;
  const int out_word = own.output / 2 + g, in_word = own.input / 2 + g;
#pragma unroll 1
  for (int k = 0; k < kStepTokens; k += 16) {
    const int rows[4] = {k + 2 * t, k + 2 * t + 1, k + 2 * t + 8, k + 2 * t + 9};
    int seen[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) seen[i] = own.tap == 1 ? rows[i] + 1 : s.before[rows[i]];
    uint32_t left[sums.kM][4];
#pragma unroll
    for (int m = 0; m < sums.kM; ++m) {
      const TokenPairs p(s.dy, rows, out_word + 8 * m);
      left[m][0] = p.even[0], left[m][1] = p.odd[0];
      left[m][2] = p.even[1], left[m][3] = p.odd[1];
    }
#pragma unroll
    for (int n = 0; n < sums.kN; n += 2) {
      const TokenPairs p(s.u, seen, in_word + 4 * n);
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
  float* to = part + ((own.output + 2 * g) * kTaps + own.tap) * kDim + own.input + 4 * t;
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
                            int64_t number) {
  using Loads = WeightLoads<kDim>;
  const int output = head * kDim + slice * kSliceOutputs + Loads::out_unit() * 8;
  const int input = head * kDim + Loads::in_unit() * 8;
  const DepthwiseTaps taps(a.weight0, a.bias0, input);
  const int64_t begin = number * a.stretch, rest = begin + a.stretch;
  const int64_t end = rest < a.z.tokens ? rest : a.z.tokens;
  WeightSums<kDim> sums;
  Loads loads;
  loads.load(a, output, input, begin, end);
  for (int64_t t0 = begin; t0 < end; t0 += kStepTokens) {
    __syncthreads();  // the step before is multiplied
    fill_step(step, a, taps, loads, input, t0);
    __syncthreads();
    if (t0 + kStepTokens < end) loads.load(a, output, input, t0 + kStepTokens, end);
    multiply_step(step, sums);
  }
  constexpr int64_t kRow = kTaps * kDim;
  const int64_t part = (int64_t{head} * a.stretches + number) * kDim + slice * kSliceOutputs;
  write_part(sums, a.parts + part * kRow);
}

// Tokens of a stretch: by the shape, so many that thirteen a head do most of a step.
inline int64_t stretch_of(int64_t tokens) {
  constexpr int64_t kStretches = 13, kLeast = 256, kMultiple = 64;
  const int64_t each = gpu::blocks_for(tokens, kStretches);
  return std::max(kLeast, gpu::blocks_for(each, kMultiple) * kMultiple);
}

}  // namespace tephra::kernel::cca
