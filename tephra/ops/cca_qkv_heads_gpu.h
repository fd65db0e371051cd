// SPDX-License-Identifier: Apache-2.0
// Both convolutions, the mean, norm, temperature and rotation of a head over tiles of tokens: the
// second convolution is a product on the matrix units, and the rest happens in the registers that
// hold its sums. Backward the same is done again up to the norm, and from there back to dy, the
// gradient of the second convolution's output.
#pragma once

#include <initializer_list>

#include "tephra/ops/cca_qkv_gpu.h"

namespace tephra::kernel::cca {

struct HeadArgs {
  HeadRows z;
  const int32_t* start;
  const bf16 *weight0, *bias0, *weight1, *bias1, *temp;
  const float* angles;  // [positions, rotary_dim]: cosines, then sines
  int nq, nk, rotary_dim;
  Temperature temperature;

  __device__ float factor(int head) const {
    if (head < nq || temperature == Temperature::none) return 1;
    const float t = float(temp[head - nq]);
    return temperature == Temperature::exp ? expf(t) : t;
  }
};

// Rows of the tile are the latents from two tokens before it on. Row i becomes the first
// convolution at token t0 + i - 1.
template <int kDim>
__device__ void convolve_rows(Tile<kDim>& m, const HeadArgs& a, int head, uint32_t begins,
                              bool begins_before) {
  constexpr int kEach = Tile<kDim>::kTokensEach;
  const int unit = m.own_unit(), first = m.own_row(), channel = head * kDim + unit * 8;
  const DepthwiseTaps taps(a.weight0, a.bias0, channel);
  Bits128 z[kEach + 1];
#pragma unroll
  for (int i = 0; i <= kEach; ++i) z[i] = m.row(first + i + 1, unit);
  const Bits128 before = m.row(0, unit);
  __syncthreads();  // the latents are read
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const bool starts = begins >> (first % 32 + i) & 1;
    m.row(first + i + 1, unit) = taps.convolved(z[i], z[i + 1], starts);
  }
  if (first > 0) return;
  m.row(0, unit) = taps.convolved(before, z[0], begins_before);
  m.row(kSpareRow, unit) = load_bits(a.bias0 + channel);  // the state before a document
}

// The second convolution at the tile's tokens, without its bias.
template <int kDim>
__device__ void convolve_tile(Tile<kDim>& m, uint32_t begins, TileSums<kDim>& sums) {
  const auto row_of = [&](int part, int r) {
    return part == 1 ? r + 1 : begins >> r % 32 & 1 ? kSpareRow : r;
  };
  multiply_tile(m, row_of, sums);
}

// A thread's channels of a head at a token, as they lie in memory.
template <int kDim>
struct HeadBits {
  static constexpr int kGroups = kDim / 32;
  Bits128 at[kGroups];

  __device__ void load(const HeadRows& from, int t, int head) {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      at[group] = from.near(t, head * kDim + group_channel(group));
    }
  }
  __device__ void add_to(Wide (&v)[kGroups], float share) const {
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      const Wide own = unpacked(at[group]);
#pragma unroll
      for (int i = 0; i < 8; ++i) v[group][i] = fmaf(own[i], share, v[group][i]);
    }
  }
};

// What the mean of latents of queries and keys is made of: the own head and the first of its
// partners come ahead of their use, the other partners when they are wanted.
template <int kDim>
struct MeanLoads {
  static constexpr int kGroups = kDim / 32;
  HeadBits<kDim> own, other;

  __device__ void load(const HeadArgs& a, const Partners& others, int head, int t) {
    own.load(a.z, t, head);
    other.load(a.z, t, others.first);
  }
  __device__ void add_to(Wide (&v)[kGroups], const HeadArgs& a, const Partners& others,
                         int t) const {
    constexpr int kAhead = 3;
    const float share = 0.5f / static_cast<float>(others.count);
    own.add_to(v, 0.5f);
    other.add_to(v, share);
#pragma unroll 1
    for (int k = 1; k < others.count; k += kAhead) {
      HeadBits<kDim> more[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        more[i].load(a.z, t, others.first + (k + i < others.count ? k + i : 0));
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) more[i].add_to(v, k + i < others.count ? share : 0.0f);
    }
  }
};

template <int kGroups>
__device__ void add_bias(const HeadArgs& a, int head, Wide (&v)[kGroups]) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const Wide bias = gpu::load<gpu::kWide>(a.bias1 + head * 32 * kGroups + group_channel(group));
#pragma unroll
    for (int i = 0; i < 8; ++i) v[group][i] += bias[i];
  }
}

// Turns a head that a quad holds, groups kApart apart being partners, or turns it back.
template <int kApart, int kGroups>
__device__ void turn_groups(const float* row, bool inverse, Wide (&v)[kGroups]) {
#pragma unroll
  for (int group = 0; group < kApart; ++group) {
    const Wide cosine = gpu::load<gpu::kWide>(row + group_channel(group));
    const Wide sine = gpu::load<gpu::kWide>(row + 32 * kApart + group_channel(group));
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float s = inverse ? -sine[i] : sine[i];
      const float first = v[group][i], second = v[group + kApart][i];
      v[group][i] = first * cosine[i] - second * s;
      v[group + kApart][i] = second * cosine[i] + first * s;
    }
  }
}

// The same where the partner of a channel is sixteen away: two lanes of the quad.
template <int kGroups>
__device__ void turn_lanes(const float* row, bool inverse, Wide (&v)[kGroups]) {
  const bool is_first = threadIdx.x % 4 < 2;
  const Wide cosine = gpu::load<gpu::kWide>(row + threadIdx.x % 2 * 8);
  const Wide sine = gpu::load<gpu::kWide>(row + 16 + threadIdx.x % 2 * 8);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float partner = gpu::shuffle_xor(v[0][i], 2);
    const float s = inverse == is_first ? sine[i] : -sine[i];
    v[0][i] = v[0][i] * cosine[i] + partner * s;
  }
}

template <int kGroups>
__device__ void turn(const HeadArgs& a, int position, bool inverse, Wide (&v)[kGroups]) {
  const float* row = a.angles + int64_t{position} * a.rotary_dim;
  if (a.rotary_dim == 32) turn_lanes(row, inverse, v);
  if (a.rotary_dim == 64) turn_groups<1>(row, inverse, v);
  if constexpr (kGroups == 4) {
    if (a.rotary_dim == 128) turn_groups<2>(row, inverse, v);
  }
}

template <int kGroups>
__device__ float quad_dot(const Wide (&a)[kGroups], const Wide (&b)[kGroups]) {
  float sum = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a[group][i] * b[group][i];
  }
  return gpu::lanes_sum(sum, 4);
}

template <int kGroups>
__device__ void store_head(const gpu::Rows<bf16>& to, int t, int tokens, int head,
                           const Wide (&v)[kGroups]) {
  if (t >= tokens) return;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    *reinterpret_cast<Bits128*>(to[t] + head * 32 * kGroups + group_channel(group)) =
        packed(v[group]);
  }
}

// A token of a tile, for one thread.
struct TileToken {
  int t;
  int position;  // in its document; 0 beyond the last token
};

// From a token's sums to its head.
template <int kGroups>
__device__ void finish_head(const HeadArgs& a, int head, const TileToken& token, Wide (&v)[kGroups],
                            const gpu::Rows<bf16>& out) {
  constexpr auto kSize = static_cast<float>(32 * kGroups);
  const float size = sqrtf(quad_dot(v, v));
  const float scale = sqrtf(kSize) / fmaxf(size, kLengthEps) * a.factor(head);
#pragma unroll
  for (int i = 0; i < kGroups * 8; ++i) v[i / 8][i % 8] *= scale;
  turn(a, token.position, false, v);
  store_head(out, token.t, a.z.tokens, head, v);
}

// From the gradient of a token's head to that of its sums; what it adds to dtemp is returned. The
// formulas are in qk_norm_cpu.cpp.
template <int kDim>
__device__ float finish_head_grad(const HeadArgs& a, int head, const TileToken& token,
                                  const Wide (&v)[kDim / 32], const HeadBits<kDim>& dout,
                                  const gpu::Rows<bf16>& dy) {
  constexpr int kGroups = kDim / 32;
  Wide d[kGroups];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) d[group] = unpacked(dout.at[group]);
  turn(a, token.position, true, d);
  const float size = sqrtf(quad_dot(v, v)), inverse = 1.0f / fmaxf(size, kLengthEps);
  const float dot = quad_dot(d, v) * inverse;
  const float root = sqrtf(static_cast<float>(kDim)), factor = a.factor(head);
  const float scale = root * inverse * factor, along = size > kLengthEps ? dot * inverse : 0.0f;
#pragma unroll
  for (int i = 0; i < kGroups * 8; ++i) {
    d[i / 8][i % 8] = (d[i / 8][i % 8] - v[i / 8][i % 8] * along) * scale;
  }
  store_head(dy, token.t, a.z.tokens, head, d);
  const float slope = a.temperature == Temperature::exp ? factor : 1.0f;
  return token.t < a.z.tokens ? root * dot * slope : 0.0f;
}

// Tiles of a head that begin at token `first` and every `step` tokens before `end`. Forward `out`
// are heads; backward it is dy, and what a quad's tokens add to dtemp is returned. What comes from
// device memory is asked for ahead of its use: the next tile's latents once this one's product is
// done with their place, and the next token's while one is finished.
template <bool kGrad, int kDim>
__device__ float run_tiles(Tile<kDim>& m, const HeadArgs& a, int head, int first, int step, int end,
                           const HeadRows& dout, const gpu::Rows<bf16>& out) {
  constexpr int kGroups = Tile<kDim>::kGroups;
  const Partners others(head, a.nq, a.nk);
  float dtemp = 0;
  begin_rows(m, a.z, head, first - 2, kTileRows);
  load_weights(m, a.weight1, head);
  for (int t0 = first; t0 < end; t0 += step) {
    const int own = t0 + warp_row() + static_cast<int>(threadIdx.x) % 32;
    const int start = own < a.z.tokens ? a.start[own] : -1;
    const uint32_t begins = gpu::ballot(start == own);
    const bool begins_before = t0 == 0 || a.start[t0 - 1] == t0 - 1;
    MeanLoads<kDim> mean;
    mean.load(a, others, head, t0 + slot_row(0));
    gpu::wait_for_copies<0>();
    __syncthreads();
    convolve_rows(m, a, head, begins, begins_before);
    __syncthreads();
    TileSums<kDim> sums;
    convolve_tile(m, begins, sums);
    __syncthreads();  // the rows are read
    if (t0 + step < end) begin_rows(m, a.z, head, t0 + step - 2, kTileRows);
#pragma unroll
    for (int slot = 0; slot < 4; ++slot) {
      TileToken token{t0 + slot_row(slot), gpu::shuffle_from(start, slot_lane(slot))};
      token.position = token.t < a.z.tokens ? token.t - token.position : 0;
      HeadBits<kDim> d;
      if constexpr (kGrad) d.load(dout, token.t, head);
      Wide v[kGroups];
#pragma unroll
      for (int group = 0; group < kGroups; ++group) v[group] = sums.wide(slot, group);
      mean.add_to(v, a, others, token.t);
      if (slot < 3) mean.load(a, others, head, t0 + slot_row(slot + 1));
      add_bias(a, head, v);
      if constexpr (kGrad) {
        dtemp += finish_head_grad<kDim>(a, head, token, v, d, out);
      } else {
        finish_head(a, head, token, v, out);
      }
    }
  }
  return dtemp;
}

// --- on the host ------------------------------------------------------------------------------

// Calls f.operator()<head_dim>() for the heads that has_fused_cca_qkv names. The weights of wider
// ones do not fit into a block's shared memory.
template <class F>
void visit_heads(int64_t head_dim, F&& f) {
  head_dim == 64 ? f.template operator()<64>() : f.template operator()<128>();
}

// Of the forward and of the backward op, with other tensors of z's columns. Never on AMD, whose
// devices have too little shared memory for a head's weights.
template <class K>
bool takes_fused(const gpu::Stream& stream, const K& k, std::initializer_list<const Tensor*> like) {
  const int64_t values = k.z.cols() - k.form.channels();
  bool fits = gpu::kHasFastPaths && !gpu::only_portable() && k.z.rows() > 0 && values % 16 == 0 &&
              has_fused_cca_qkv(k.z, k.convs, k.form);
  for (const Tensor* rows : like) fits = fits && gpu::is_wide(gpu::rows_of<bf16>(*rows));
  for (const Tensor* vector :
       {&k.convs.weight0, &k.convs.bias0, &k.convs.weight1, &k.convs.bias1}) {
    fits = fits && gpu::is_wide(vector->template data<bf16>());
  }
  visit_heads(k.form.rope.head_dim, [&]<int kDim>() {
    fits = fits && gpu::most_shared_bytes(stream.device()) >= int64_t{sizeof(Tile<kDim>)};
  });
  return fits;
}

template <class K>
HeadArgs head_args(const K& k, const Tensor& angles) {
  return {{gpu::rows_of<const bf16>(k.z), static_cast<int>(k.z.rows())},
          k.segments.start_N.template data<int32_t>(),
          k.convs.weight0.template data<bf16>(),
          k.convs.bias0.template data<bf16>(),
          k.convs.weight1.template data<bf16>(),
          k.convs.bias1.template data<bf16>(),
          gpu::data_of<const bf16>(k.temp),
          gpu::data_of<const float>(angles),
          static_cast<int>(k.form.nq),
          static_cast<int>(k.form.nk),
          static_cast<int>(k.form.rope.rotary_dim),
          k.form.temperature};
}

inline ValueRows value_rows(const Tensor& from, const Tensor& to, const Tensor& bound_N,
                            const CcaHeadsForm& form, bool accumulate) {
  const int64_t first = form.channels();
  return {{from.data<bf16>() + first, from.row_stride()},
          {to.data<bf16>() + first, to.row_stride()},
          bound_N.data<int32_t>(),
          static_cast<int>((from.cols() - first) / 2),
          accumulate};
}

}  // namespace tephra::kernel::cca
