// SPDX-License-Identifier: Apache-2.0
// Backward from the second convolution's output: one kernel for the gradients of the latents and of
// the first convolution, one for the weights of the second. Sums over tokens are made in parts
// that follow from the shape and then added in order.
#include "tephra/ops/cca_qk_gpu.h"

namespace tephra::kernel {
namespace {

using namespace cca;

struct CcaConvGradArgs {
  HeadRows dy, z;
  const int32_t *start, *end;
  const bf16 *weight0, *bias0, *packed1;
  int nq, nk;
  gpu::Rows<bf16> dz;
  bool accumulate_dz;
  float* parts;  // [blocks][3 C]: of dweight0 as it lies, then of dbias1
};

// A tile gives the latents' gradients of all its tokens but the last, whose successor's share is
// not in it.
constexpr int kOwnTokens = kTokens - 1;

// Rows are dy from token t0 on, and become the gradients of the second convolution's input.
__device__ void convolve_back(TileMemory& m, uint32_t follows) {
  const auto row_of = [&](int part, int r) {
    return part == 0 ? r : follows >> r % 32 & 1 ? r + 1 : kSpareRow;
  };
  TileSums sums;
  multiply_tile(m, row_of, sums);
  __syncthreads();  // dy is read
#pragma unroll
  for (int slot = 0; slot < 4; ++slot) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      m.row(slot_row(slot), group_channel(group) / 8) = packed(sums.wide(slot, group));
    }
  }
  __syncthreads();
}

// Of a thread's eight channels.
struct CcaConvSums {
  Wide older, newer, bias;
};

// What a token's latents' gradient needs from device memory, with as many partners as most models
// have.
struct LatentLoads {
  static constexpr int kPartners = 4;
  Bits128 now, own, others[kPartners];

  __device__ void load(const CcaConvGradArgs& a, const Partners& partners, int head, int at,
                       int64_t t) {
    now = a.z.near(t, head * kDim + at);
    own = a.dy.near(t, head * kDim + at);
#pragma unroll
    for (int k = 0; k < kPartners; ++k) {
      if (k < partners.count) others[k] = a.dy.near(t, (partners.first + k) * kDim + at);
    }
  }
};

__device__ void add_bits(Wide& sum, const Bits128& bits) {
  const Wide more = unpacked(bits);
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] += more[i];
}

// The gradient of the mean's inputs, from dy of the own head and of those that it is averaged with.
__device__ Wide mean_gradient(const CcaConvGradArgs& a, const Partners& partners, int head, int at,
                              int64_t t, const LatentLoads& token) {
  const float share = head < a.nq ? static_cast<float>(a.nk) / static_cast<float>(a.nq) : 1.0f;
  const Wide own = unpacked(token.own);
  Wide sum = unpacked(token.others[0]);
#pragma unroll
  for (int k = 1; k < LatentLoads::kPartners; ++k) {
    if (k < partners.count) add_bits(sum, token.others[k]);
  }
#pragma unroll 1
  for (int k = LatentLoads::kPartners; k < partners.count; ++k) {
    add_bits(sum, a.dy.near(t, (partners.first + k) * kDim + at));
  }
  return Wide::of([&](int i) { return (own[i] + sum[i] * share) * 0.5f; });
}

// A thread has eight channels of sixteen tokens, and four of them on their way.
__device__ void latent_gradients(TileMemory& m, const CcaConvGradArgs& a, int head, int64_t t0,
                                 uint32_t begins, uint32_t follows, CcaConvSums& sums) {
  constexpr int kAhead = 4;
  const int unit = own_unit(), at = unit * 8, channel = head * kDim + at, first = own_row();
  const DepthwiseTaps taps(a.weight0, a.bias0, channel);
  const Partners partners(head, a.nq, a.nk);
  LatentLoads loads[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) loads[i].load(a, partners, head, at, t0 + first + i);
  Bits128 before = a.z.near(t0 + first - 1, channel);
#pragma unroll 1
  for (int i = 0; i < kTokensEach; i += kAhead) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const LatentLoads token = loads[j];
      const int r = first + i + j;
      const int64_t t = t0 + r;
      loads[j].load(a, partners, head, at, t + kAhead);
      const Wide now = unpacked(token.now), old = unpacked(before), own = unpacked(token.own);
      before = token.now;
      if (r >= kOwnTokens || t >= a.z.tokens) continue;
      const Wide mean = mean_gradient(a, partners, head, at, t, token);
      const Wide here = unpacked(m.row(r, unit));
      const Wide next = unpacked(follows >> r % 32 & 1 ? m.row(r + 1, unit) : Bits128{});
      const bool starts = begins >> r % 32 & 1;
      Wide d;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        d[c] = fmaf(taps.newer[c], here[c], fmaf(taps.older[c], next[c], mean[c]));
        sums.older[c] += starts ? 0.0f : here[c] * old[c];
        sums.newer[c] += here[c] * now[c];
        sums.bias[c] += own[c];
      }
      gpu::write(a.dz[t] + channel, d, a.accumulate_dz);
    }
  }
}

// Adds the sums of the threads that have the same channels, in order, and writes the block's part.
__device__ void write_sums(TileMemory& m, const CcaConvGradArgs& a, int head,
                           const CcaConvSums& sums) {
  constexpr int kParts = kTileThreads / kRowUnits;
  auto* shared = reinterpret_cast<float*>(m.rows);  // [kParts][3][kDim]
  const int unit = static_cast<int>(threadIdx.x) % kRowUnits;
  const int part = static_cast<int>(threadIdx.x) / kRowUnits;
  __syncthreads();  // the rows are read
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float* to = shared + part * 3 * kDim + unit * 8 + i;
    to[0] = sums.older[i];
    to[kDim] = sums.newer[i];
    to[2 * kDim] = sums.bias[i];
  }
  __syncthreads();
  const int64_t channels = int64_t{a.nq + a.nk} * kDim;
  float* out = a.parts + int64_t{blockIdx.y} * 3 * channels;
  for (int i = threadIdx.x; i < 3 * kDim; i += kTileThreads) {
    float sum = 0;
    for (int p = 0; p < kParts; ++p) sum += shared[p * 3 * kDim + i];
    const int64_t channel = head * kDim + i % kDim;
    out[i < 2 * kDim ? 2 * channel + i / kDim : 2 * channels + channel] = sum;
  }
}

__global__ void __launch_bounds__(kTileThreads, 2) cca_conv_grad_tiles(CcaConvGradArgs a) {
  extern __shared__ Bits128 cca_grad_shared[];
  TileMemory& m = *reinterpret_cast<TileMemory*>(cca_grad_shared);
  const int head = static_cast<int>(blockIdx.x);
  const int64_t step = int64_t{gridDim.y} * kOwnTokens;
  begin_rows(m, a.dy, head, int64_t{blockIdx.y} * kOwnTokens, kTokens + 1);
  load_weights(m, a.packed1, head);
  if (threadIdx.x < kRowUnits) m.row(kSpareRow, threadIdx.x) = Bits128{};
  CcaConvSums sums;
  for (int64_t t0 = int64_t{blockIdx.y} * kOwnTokens; t0 < a.z.tokens; t0 += step) {
    const auto bits = [&](auto says) { return token_bits(t0 + warp_row(), a.z.tokens, says); };
    const uint32_t begins = bits([&](int64_t t) { return a.start[t] == t; });
    const uint32_t follows = bits([&](int64_t t) { return t + 1 < a.end[t]; });
    gpu::wait_for_copies<0>();
    __syncthreads();
    convolve_back(m, follows);
    latent_gradients(m, a, head, t0, begins, follows, sums);
    __syncthreads();  // the rows are read
    if (t0 + step < a.z.tokens) begin_rows(m, a.dy, head, t0 + step, kTokens + 1);
  }
  write_sums(m, a, head, sums);
}

// dbias1 as it was summed, and dbias0: what reaches the first convolution's output, before the
// document or in it, has come through either tap.
struct CcaBiasRow {
  const float* sums;  // [C] of dbias1
  const bf16* weight1;
  float *dbias0, *dbias1;
  bool accumulate0, accumulate1;

  __device__ void operator()(int64_t channel) const {
    const int64_t head = channel / kDim, i = channel % kDim;
    float sum = 0;
    if (threadIdx.x < kDim) {
      const int64_t c = head * kDim + threadIdx.x;
      const bf16* w = weight1 + (c * kDim + i) * kTaps;
      sum = (float(w[0]) + float(w[1])) * sums[c];
    }
    sum = gpu::block_sum(sum);
    if (threadIdx.x > 0) return;
    gpu::write(dbias0 + channel, sum, accumulate0);
    gpu::write(dbias1 + channel, sums[channel], accumulate1);
  }
};

// --- the second convolution's weights ---------------------------------------------------------

// A block has a head and a stretch of tokens, taken so many at a time; eight warps have 64 of the
// 128 outputs and 64 of the 256 inputs of both taps each.
constexpr int kStepTokens = 64, kWeightThreads = 256;
constexpr int kWords = kDim / 2 + 4;  // of a row: four tokens of a quad meet different banks
constexpr int kBiasRow = kStepTokens + 1;

struct alignas(16) WeightStep {
  uint32_t dy[kStepTokens][kWords], u[kStepTokens + 2][kWords];
  int before[kStepTokens];  // the row of u at the token before

  __device__ static void put(uint32_t* row, int unit, const Bits128& v) {
    *reinterpret_cast<Bits128*>(row + unit * 4) = v;
  }
};

struct CcaWeightArgs {
  HeadRows dy, z;
  const int32_t* start;
  const bf16 *weight0, *bias0;
  int64_t stretch;
  float* parts;  // [head][stretch][d][taps * d]
};

// What a thread brings of a step: eight channels of four tokens, and of the two before them what
// the first convolution sees.
struct WeightLoads {
  static constexpr int kEach = kStepTokens / (kWeightThreads / kRowUnits);
  Bits128 dy[kEach], z[kEach + 2];
  int32_t start[kEach + 1];

  __device__ void load(const CcaWeightArgs& a, int channel, int64_t first, int64_t end) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      dy[i] = first + i < end ? a.dy.at(first + i, channel) : Bits128{};
    }
#pragma unroll
    for (int i = 0; i < kEach + 2; ++i) z[i] = a.z.at(first + i - 2, channel);
#pragma unroll
    for (int i = 0; i <= kEach; ++i) {
      const int64_t t = first + i - 1;
      start[i] = t >= 0 && t < a.z.tokens ? a.start[t] : -1;
    }
  }
  // The first convolution at token i - 1 of the thread's, which is token t of all.
  __device__ Bits128 convolved(const DepthwiseTaps& taps, int i, int64_t t, int64_t tokens) const {
    return t >= 0 && t < tokens ? taps.convolved(z[i], z[i + 1], start[i] == t) : Bits128{};
  }
};

__device__ void fill_step(WeightStep& s, const CcaWeightArgs& a, const DepthwiseTaps& taps,
                          const WeightLoads& loads, int channel, int unit, int64_t t0) {
  const int first = static_cast<int>(threadIdx.x) / kRowUnits * WeightLoads::kEach;
#pragma unroll
  for (int i = 0; i < WeightLoads::kEach; ++i) {
    const int r = first + i;
    const int64_t t = t0 + r;
    WeightStep::put(s.dy[r], unit, loads.dy[i]);
    WeightStep::put(s.u[r + 1], unit, loads.convolved(taps, i + 1, t, a.z.tokens));
    if (unit == 0) s.before[r] = loads.start[i + 1] == t ? kBiasRow : r;
  }
  if (first > 0) return;
  WeightStep::put(s.u[0], unit, loads.convolved(taps, 0, t0 - 1, a.z.tokens));
  WeightStep::put(s.u[kBiasRow], unit, load_bits(a.bias0 + channel));
}

__device__ uint32_t low_halves(uint32_t a, uint32_t b) { return (a & 0xffffu) | b << 16; }
__device__ uint32_t high_halves(uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000u); }

// Sums of a warp: outputs 16 m + 2 g and the next, of inputs 16 (n / 2) + 2 (2 t + e) + n % 2.
struct WeightSums {
  float at[4][8][4] = {};
};

// The terms of two channels at a quad's four tokens, for two operands.
struct TokenPairs {
  uint32_t even[2], odd[2];

  __device__ TokenPairs(const uint32_t (*table)[kWords], const int (&rows)[4], int word) {
    const uint32_t a = table[rows[0]][word], b = table[rows[1]][word];
    const uint32_t c = table[rows[2]][word], d = table[rows[3]][word];
    even[0] = low_halves(a, b), even[1] = low_halves(c, d);
    odd[0] = high_halves(a, b), odd[1] = high_halves(c, d);
  }
};

__device__ void multiply_step(const WeightStep& s, WeightSums& sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / 32, tap = warp / 4;
  const int out_word = warp % 2 * 32 + g, in_word = warp / 2 % 2 * 32 + g;
#pragma unroll 1
  for (int k = 0; k < kStepTokens; k += 16) {
    const int rows[4] = {k + 2 * t, k + 2 * t + 1, k + 2 * t + 8, k + 2 * t + 9};
    int seen[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) seen[i] = tap == 1 ? rows[i] + 1 : s.before[rows[i]];
    uint32_t left[4][4];
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const TokenPairs p(s.dy, rows, out_word + 8 * m);
      left[m][0] = p.even[0], left[m][1] = p.odd[0];
      left[m][2] = p.even[1], left[m][3] = p.odd[1];
    }
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const TokenPairs p(s.u, seen, in_word + 4 * n);
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        gpu::multiply_16x8x16(sums.at[m][n], left[m], p.even);
        gpu::multiply_16x8x16(sums.at[m][n + 1], left[m], p.odd);
      }
    }
  }
}

// A thread has four neighbouring inputs of each output.
__device__ void write_part(const WeightSums& sums, float* part) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  const int warp = static_cast<int>(threadIdx.x) / 32, tap = warp / 4;
  float* own = part + ((warp % 2 * 64 + 2 * g) * kTaps + tap) * kDim + warp / 2 % 2 * 64 + 4 * t;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int low = 0; low < 2; ++low) {
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        const auto &even = sums.at[m][n], &odd = sums.at[m][n + 1];
        gpu::Floats<4> four;
        four[0] = even[2 * low], four[1] = odd[2 * low];
        four[2] = even[2 * low + 1], four[3] = odd[2 * low + 1];
        gpu::store(own + (16 * m + low) * kTaps * kDim + 8 * n, four);
      }
    }
  }
}

__global__ void __launch_bounds__(kWeightThreads, 1) cca_conv_weight_stretch(CcaWeightArgs a) {
  __shared__ WeightStep step;
  const int head = static_cast<int>(blockIdx.x), unit = static_cast<int>(threadIdx.x) % kRowUnits;
  const int channel = head * kDim + unit * 8;
  const int own = static_cast<int>(threadIdx.x) / kRowUnits * WeightLoads::kEach;
  const DepthwiseTaps taps(a.weight0, a.bias0, channel);
  const int64_t begin = blockIdx.y * a.stretch;
  const int64_t end = begin + a.stretch < a.z.tokens ? begin + a.stretch : a.z.tokens;
  WeightSums sums;
  WeightLoads loads;
  loads.load(a, channel, begin + own, end);
  for (int64_t t0 = begin; t0 < end; t0 += kStepTokens) {
    __syncthreads();  // the step before is multiplied
    fill_step(step, a, taps, loads, channel, unit, t0);
    __syncthreads();
    if (t0 + kStepTokens < end) loads.load(a, channel, t0 + kStepTokens + own, end);
    multiply_step(step, sums);
  }
  write_part(sums, a.parts + (int64_t{head} * gridDim.y + blockIdx.y) * kDim * kTaps * kDim);
}

// dweight1[c, i, k] = the sum of its parts.
struct CcaWeightElement {
  const float* parts;
  int64_t count;
  float* dweight;
  bool accumulate;

  __device__ void operator()(int64_t channel, int64_t at) const {
    constexpr int64_t kPart = kDim * kTaps * kDim;
    const int64_t head = channel / kDim, c = channel % kDim, i = at / kTaps, k = at % kTaps;
    const float* part = parts + head * count * kPart + (c * kTaps + k) * kDim + i;
    float sum = 0;
#pragma unroll 4
    for (int64_t s = 0; s < count; ++s) sum += part[s * kPart];
    gpu::write(dweight + channel * kTaps * kDim + at, sum, accumulate);
  }
};

// Tokens of a stretch: by the shape, so many that thirteen blocks a head do most of a step.
int64_t stretch_of(int64_t tokens) {
  constexpr int64_t kStretches = 13, kLeast = 4 * kStepTokens;
  const int64_t each = gpu::blocks_for(tokens, kStretches);
  return std::max(kLeast, gpu::blocks_for(each, kStepTokens) * kStepTokens);
}

void weight_gradient(gpu::Stream& stream, const CcaQkGrad& k, const Tensor& dy) {
  const int64_t heads = k.form.nq + k.form.nk, tokens = k.z.rows(), stretch = stretch_of(tokens);
  const int64_t count = gpu::blocks_for(tokens, stretch);
  const Tensor parts({heads * count * kDim, kTaps * kDim}, DType::f32, k.z.device(),
                     Purpose::workspace);
  stream.launch(cca_conv_weight_stretch,
                {.blocks = heads, .blocks_y = count, .threads = kWeightThreads},
                CcaWeightArgs{{gpu::rows_of<const bf16>(dy), tokens},
                              {gpu::rows_of<const bf16>(k.z), tokens},
                              k.segments.start_N.data<int32_t>(),
                              k.convs.weight0.data<bf16>(),
                              k.convs.bias0.data<bf16>(),
                              stretch,
                              parts.data<float>()});
  gpu::for_each(stream, heads * kDim, kTaps * kDim,
                CcaWeightElement{parts.data<float>(), count, k.dweight1.grad.data<float>(),
                                 k.dweight1.accumulate});
}

}  // namespace

void cca::convolution_gradients(gpu::Stream& stream, const CcaQkGrad& k, const Tensor& dy) {
  const int64_t heads = k.form.nq + k.form.nk, channels = heads * kDim, tokens = k.z.rows();
  const int64_t blocks = blocks_of(gpu::blocks_for(tokens, kOwnTokens));
  const Tensor packed1 = packed_weights(stream, k.convs.weight1, true);
  const Tensor parts({blocks + 1, 3 * channels}, DType::f32, k.z.device(), Purpose::workspace);
  stream.allow_shared(cca_conv_grad_tiles, sizeof(TileMemory));
  stream.launch(cca_conv_grad_tiles,
                {.blocks = heads,
                 .blocks_y = blocks,
                 .threads = kTileThreads,
                 .shared_bytes = sizeof(TileMemory)},
                CcaConvGradArgs{{gpu::rows_of<const bf16>(dy), tokens},
                                {gpu::rows_of<const bf16>(k.z), tokens},
                                k.segments.start_N.data<int32_t>(),
                                k.segments.end_N.data<int32_t>(),
                                k.convs.weight0.data<bf16>(),
                                k.convs.bias0.data<bf16>(),
                                packed1.data<bf16>(),
                                static_cast<int>(k.form.nq),
                                static_cast<int>(k.form.nk),
                                gpu::rows_of<bf16>(k.dz.grad),
                                k.dz.accumulate,
                                parts.data<float>()});
  const float* sums = parts.data<float>();
  float* biases = parts.data<float>() + blocks * 3 * channels;
  gpu::sum_parts(stream, sums, blocks, 3 * channels, 2 * channels, k.dweight0.grad.data<float>(),
                 k.dweight0.accumulate);
  gpu::sum_parts(stream, sums + 2 * channels, blocks, 3 * channels, channels, biases, false);
  gpu::for_each_row(
      stream, channels,
      CcaBiasRow{biases, k.convs.weight1.data<bf16>(), k.dbias0.grad.data<float>(),
                 k.dbias1.grad.data<float>(), k.dbias0.accumulate, k.dbias1.accumulate});
  weight_gradient(stream, k, dy);
}

}  // namespace tephra::kernel
