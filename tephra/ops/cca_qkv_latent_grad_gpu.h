// SPDX-License-Identifier: Apache-2.0
// From dy, the gradient of the second convolution's output, to the gradients of the latents and of
// the first convolution. Sums over tokens are made in parts that follow from the shape.
#pragma once

#include "tephra/ops/cca_qkv_gpu.h"

namespace tephra::kernel::cca {

struct LatentArgs {
  HeadRows dy, z;
  const int32_t *start, *end;
  const bf16 *weight0, *bias0, *weight1;
  int nq, nk;
  gpu::Rows<bf16> dz;
  bool accumulate_dz;
  int span_tokens;
  float* parts;  // [spans][3 C]: of dweight0 as it lies, then of dbias1
};

// A tile gives the latents' gradients of all its tokens but the last, whose successor's share is
// not in it; a span of tiles gives a part of the sums.
inline constexpr int kOwnTokens = kTokens - 1;

// Rows are dy from token t0 on, and become the gradients of the second convolution's input.
template <int kDim>
__device__ void convolve_back(Tile<kDim>& m, uint32_t follows) {
  const auto row_of = [&](int part, int r) {
    return part == 0 ? r : follows >> r % 32 & 1 ? r + 1 : kSpareRow;
  };
  TileSums<kDim> sums;
  multiply_tile(m, row_of, sums);
  __syncthreads();  // dy is read
#pragma unroll
  for (int slot = 0; slot < 4; ++slot) {
#pragma unroll
    for (int group = 0; group < m.kGroups; ++group) {
      m.row(slot_row(slot), group_channel(group) / 8) = packed(sums.wide(slot, group));
    }
  }
  __syncthreads();
}

// Of a thread's eight channels.
struct LatentSums {
  Wide older, newer, bias;
};

// What a token's latents' gradient needs from device memory, with as many partners as most models
// have.
struct LatentLoads {
  static constexpr int kPartners = 4;
  Bits128 now, own, others[kPartners];

  template <int kDim>
  __device__ void load(const LatentArgs& a, const Partners& partners, int head, int at, int t) {
    now = a.z.near(t, head * kDim + at);
    own = a.dy.near(t, head * kDim + at);
#pragma unroll
    for (int k = 0; k < kPartners; ++k) {
      if (k < partners.count) others[k] = a.dy.near(t, (partners.first + k) * kDim + at);
    }
  }
};

__device__ inline void add_bits(Wide& sum, const Bits128& bits) {
  const Wide more = unpacked(bits);
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] += more[i];
}

// The gradient of the mean's inputs, from dy of the own head and of those that it is averaged with.
template <int kDim>
__device__ Wide mean_gradient(const LatentArgs& a, const Partners& partners, int head, int at,
                              int t, const LatentLoads& token) {
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

// A thread has eight channels of the tokens that are its own, and four of them on their way.
template <int kDim>
__device__ void latent_gradients(Tile<kDim>& m, const LatentArgs& a, int head, int t0,
                                 uint32_t begins, uint32_t follows, LatentSums& sums) {
  constexpr int kAhead = 4;
  const int unit = m.own_unit(), at = unit * 8, channel = head * kDim + at, first = m.own_row();
  const DepthwiseTaps taps(a.weight0, a.bias0, channel);
  const Partners partners(head, a.nq, a.nk);
  // dy is there up to a token after the tile's.
  const auto load = [&](LatentLoads& loads, int r) {
    loads.load<kDim>(a, partners, head, at, t0 + (r < kTokens ? r : kTokens));
  };
  LatentLoads loads[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(loads[i], first + i);
  Bits128 before = a.z.near(t0 + first - 1, channel);
#pragma unroll 1
  for (int i = 0; i < m.kTokensEach; i += kAhead) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      const LatentLoads token = loads[j];
      const int r = first + i + j;
      const int t = t0 + r;
      load(loads[j], r + kAhead);
      const Wide now = unpacked(token.now), old = unpacked(before), own = unpacked(token.own);
      before = token.now;
      if (r >= kOwnTokens || t >= a.z.tokens) continue;
      const Wide mean = mean_gradient<kDim>(a, partners, head, at, t, token);
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

// Adds the sums of the threads that have the same channels, in order, and writes the span's part.
template <int kDim>
__device__ void write_sums(Tile<kDim>& m, const LatentArgs& a, int head, int span,
                           const LatentSums& sums) {
  constexpr int kParts = kTileThreads / Tile<kDim>::kRowUnits;
  auto* shared = reinterpret_cast<float*>(m.rows);  // [kParts][3][kDim]
  const int part = static_cast<int>(threadIdx.x) / m.kRowUnits;
  __syncthreads();  // the rows are read
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float* to = shared + part * 3 * kDim + m.own_unit() * 8 + i;
    to[0] = sums.older[i];
    to[kDim] = sums.newer[i];
    to[2 * kDim] = sums.bias[i];
  }
  __syncthreads();
  const int64_t channels = int64_t{a.nq + a.nk} * kDim;
  float* out = a.parts + int64_t{span} * 3 * channels;
  for (int i = threadIdx.x; i < 3 * kDim; i += kTileThreads) {
    float sum = 0;
    for (int p = 0; p < kParts; ++p) sum += shared[p * 3 * kDim + i];
    const int64_t channel = head * kDim + i % kDim;
    out[i < 2 * kDim ? 2 * channel + i / kDim : 2 * channels + channel] = sum;
  }
}

// dy must be there up to the second token after the span.
template <int kDim>
__device__ void run_span(Tile<kDim>& m, const LatentArgs& a, int head, int span) {
  const int first = span * a.span_tokens, rest = first + a.span_tokens;
  const int end = rest < a.z.tokens ? rest : a.z.tokens;
  begin_rows(m, a.dy, head, first, kTokens + 1);
  load_weights_back(m, a.weight1, head);
  if (threadIdx.x < m.kRowUnits) m.row(kSpareRow, threadIdx.x) = Bits128{};
  LatentSums sums;
  for (int t0 = first; t0 < end; t0 += kOwnTokens) {
    const auto bits = [&](auto says) { return token_bits(t0 + warp_row(), a.z.tokens, says); };
    const uint32_t begins = bits([&](int t) { return a.start[t] == t; });
    const uint32_t follows = bits([&](int t) { return t + 1 < a.end[t]; });
    gpu::wait_for_copies<0>();
    __syncthreads();
    convolve_back(m, follows);
    latent_gradients(m, a, head, t0, begins, follows, sums);
    __syncthreads();  // the rows are read
    if (t0 + kOwnTokens < end) begin_rows(m, a.dy, head, t0 + kOwnTokens, kTokens + 1);
  }
  write_sums(m, a, head, span, sums);
}

}  // namespace tephra::kernel::cca
