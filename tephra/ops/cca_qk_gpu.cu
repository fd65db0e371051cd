// SPDX-License-Identifier: Apache-2.0
// Both convolutions, the mean, norm, temperature and rotation in one pass: the second convolution
// is a product on the matrix units, and the rest happens in the registers that hold its sums. The
// backward pass does the same again up to the norm and goes back from there to the gradient of the
// second convolution's output; cca_qk_grad_gpu.cu goes on.
#include "tephra/ops/cca_qk_gpu.h"
#include "tephra/ops/cca_qk_steps.h"
#include "tephra/ops/rotary_table_gpu.h"

namespace tephra::kernel {
namespace {

using namespace cca;

struct CcaQkArgs {
  HeadRows z;
  const int32_t* start;
  const bf16 *weight0, *bias0, *packed1, *bias1, *temp;
  const float* table;  // [N, rotary_dim]
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
__device__ void convolve_rows(TileMemory& m, const CcaQkArgs& a, int head, uint32_t begins,
                              bool begins_before) {
  const int unit = own_unit(), first = own_row(), channel = head * kDim + unit * 8;
  const DepthwiseTaps taps(a.weight0, a.bias0, channel);
  Bits128 z[kTokensEach + 1];
#pragma unroll
  for (int i = 0; i <= kTokensEach; ++i) z[i] = m.row(first + i + 1, unit);
  const Bits128 before = m.row(0, unit);
  __syncthreads();  // the latents are read
#pragma unroll
  for (int i = 0; i < kTokensEach; ++i) {
    const bool starts = begins >> (first % 32 + i) & 1;
    m.row(first + i + 1, unit) = taps.convolved(z[i], z[i + 1], starts);
  }
  if (first > 0) return;
  m.row(0, unit) = taps.convolved(before, z[0], begins_before);
  m.row(kSpareRow, unit) = load_bits(a.bias0 + channel);  // the state before a document
}

// The second convolution at the tile's tokens, without its bias.
__device__ void convolve_tile(TileMemory& m, uint32_t begins, TileSums& sums) {
  const auto row_of = [&](int part, int r) {
    return part == 1 ? r + 1 : begins >> r % 32 & 1 ? kSpareRow : r;
  };
  multiply_tile(m, row_of, sums);
}

// A thread's channels of a head at a token, as they lie in memory.
struct HeadBits {
  Bits128 at[kGroups];

  __device__ void load(const HeadRows& from, int64_t t, int head) {
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
struct MeanLoads {
  HeadBits own, other;

  __device__ void load(const CcaQkArgs& a, const Partners& others, int head, int64_t t) {
    own.load(a.z, t, head);
    other.load(a.z, t, others.first);
  }
  __device__ void add_to(Wide (&v)[kGroups], const CcaQkArgs& a, const Partners& others,
                         int64_t t) const {
    constexpr int kAhead = 3;
    const float share = 0.5f / static_cast<float>(others.count);
    own.add_to(v, 0.5f);
    other.add_to(v, share);
#pragma unroll 1
    for (int k = 1; k < others.count; k += kAhead) {
      HeadBits more[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        more[i].load(a.z, t, others.first + (k + i < others.count ? k + i : 0));
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) more[i].add_to(v, k + i < others.count ? share : 0.0f);
    }
  }
};

__device__ void add_bias(const CcaQkArgs& a, int head, Wide (&v)[kGroups]) {
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const Wide bias = gpu::load<gpu::kWide>(a.bias1 + head * kDim + group_channel(group));
#pragma unroll
    for (int i = 0; i < 8; ++i) v[group][i] += bias[i];
  }
}

// Turns a head that a quad holds, groups kApart apart being partners, or turns it back.
template <int kApart>
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

__device__ void turn(const CcaQkArgs& a, int64_t t, bool inverse, Wide (&v)[kGroups]) {
  if (t >= a.z.tokens) return;
  const float* row = a.table + t * a.rotary_dim;
  if (a.rotary_dim == 64) turn_groups<1>(row, inverse, v);
  if (a.rotary_dim == 128) turn_groups<2>(row, inverse, v);
}

__device__ float quad_dot(const Wide (&a)[kGroups], const Wide (&b)[kGroups]) {
  float sum = 0;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += a[group][i] * b[group][i];
  }
  return gpu::lanes_sum(sum, 4);
}

__device__ void store_head(const gpu::Rows<bf16>& to, int64_t t, int64_t tokens, int head,
                           const Wide (&v)[kGroups]) {
  if (t >= tokens) return;
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    *reinterpret_cast<Bits128*>(to[t] + head * kDim + group_channel(group)) = packed(v[group]);
  }
}

// From a token's sums to its head.
__device__ void finish_head(const CcaQkArgs& a, int head, int64_t t, Wide (&v)[kGroups],
                            const gpu::Rows<bf16>& out) {
  const float size = sqrtf(quad_dot(v, v));
  const float scale = sqrtf(static_cast<float>(kDim)) / fmaxf(size, kLengthEps) * a.factor(head);
#pragma unroll
  for (int i = 0; i < kGroups * 8; ++i) v[i / 8][i % 8] *= scale;
  turn(a, t, false, v);
  store_head(out, t, a.z.tokens, head, v);
}

// From the gradient of a token's head to that of its sums. The formulas are in qk_norm_cpu.cpp.
__device__ void finish_head_grad(const CcaQkArgs& a, int head, int64_t t, const Wide (&v)[kGroups],
                                 const HeadBits& dout, const gpu::Rows<bf16>& dy, float* parts) {
  Wide d[kGroups];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) d[group] = unpacked(dout.at[group]);
  turn(a, t, true, d);
  const float size = sqrtf(quad_dot(v, v)), inverse = 1.0f / fmaxf(size, kLengthEps);
  const float dot = quad_dot(d, v) * inverse;
  const float root = sqrtf(static_cast<float>(kDim)), factor = a.factor(head);
  if (parts && head >= a.nq && threadIdx.x % 4 == 0 && t < a.z.tokens) {
    const float slope = a.temperature == Temperature::exp ? factor : 1.0f;
    parts[t * a.nk + head - a.nq] = root * dot * slope;
  }
  const float scale = root * inverse * factor, along = size > kLengthEps ? dot * inverse : 0.0f;
#pragma unroll
  for (int i = 0; i < kGroups * 8; ++i) {
    d[i / 8][i % 8] = (d[i / 8][i % 8] - v[i / 8][i % 8] * along) * scale;
  }
  store_head(dy, t, a.z.tokens, head, d);
}

// Blocks (head, part of the tiles). Backward, `out` is the gradient of the sums. What comes from
// device memory is asked for ahead of its use: the next tile's latents once this one's product is
// done with their place, and the next token's while one is finished.
template <bool kGrad>
__global__ void __launch_bounds__(kTileThreads, 2)
    cca_qk_tiles(CcaQkArgs a, HeadRows dout, gpu::Rows<bf16> out, float* parts) {
  extern __shared__ Bits128 cca_qk_shared[];
  TileMemory& m = *reinterpret_cast<TileMemory*>(cca_qk_shared);
  const int head = static_cast<int>(blockIdx.x);
  const Partners others(head, a.nq, a.nk);
  const int64_t step = int64_t{gridDim.y} * kTokens;
  begin_rows(m, a.z, head, int64_t{blockIdx.y} * kTokens - 2, kTileRows);
  load_weights(m, a.packed1, head);
  for (int64_t t0 = int64_t{blockIdx.y} * kTokens; t0 < a.z.tokens; t0 += step) {
    const uint32_t begins =
        token_bits(t0 + warp_row(), a.z.tokens, [&](int64_t t) { return a.start[t] == t; });
    const bool begins_before = t0 == 0 || a.start[t0 - 1] == t0 - 1;
    MeanLoads mean;
    mean.load(a, others, head, t0 + slot_row(0));
    gpu::wait_for_copies<0>();
    __syncthreads();
    convolve_rows(m, a, head, begins, begins_before);
    __syncthreads();
    TileSums sums;
    convolve_tile(m, begins, sums);
    __syncthreads();  // the rows are read
    if (t0 + step < a.z.tokens) begin_rows(m, a.z, head, t0 + step - 2, kTileRows);
#pragma unroll
    for (int slot = 0; slot < 4; ++slot) {
      const int64_t t = t0 + slot_row(slot);
      HeadBits d;
      if constexpr (kGrad) d.load(dout, t, head);
      Wide v[kGroups];
#pragma unroll
      for (int group = 0; group < kGroups; ++group) v[group] = sums.wide(slot, group);
      mean.add_to(v, a, others, t);
      if (slot < 3) mean.load(a, others, head, t0 + slot_row(slot + 1));
      add_bias(a, head, v);
      if constexpr (kGrad) {
        finish_head_grad(a, head, t, v, d, out, parts);
      } else {
        finish_head(a, head, t, v, out);
      }
    }
  }
}

struct CcaQkTempTerm {
  const float* parts;
  int64_t nk;

  __device__ float operator()(int64_t r, int64_t c) const { return parts[r * nk + c]; }
};

template <class K>
bool takes_fused(const gpu::Stream& stream, const K& k) {
  const auto wide = [](const Tensor& t) { return gpu::is_wide(t.template data<bf16>()); };
  return k.z.rows() > 0 && has_fused_cca_qk(k.z, k.convs, k.form) &&
         k.form.rope.rotary_dim <= 128 && gpu::is_wide(gpu::rows_of<bf16>(k.z)) &&
         wide(k.convs.bias0) && wide(k.convs.bias1) && wide(k.convs.weight0) &&
         gpu::most_shared_bytes(stream.device()) >= int64_t{sizeof(TileMemory)};
}

// Runs the kernel on what `k` is about.
template <bool kGrad, class K>
void run_tiles(gpu::Stream& stream, const K& k, const Tensor& dout, const Tensor& out,
               const Tensor& parts) {
  const Tensor table = gpu::rotary_table(stream, k.segments.position_N, k.form.rope);
  const Tensor packed1 = packed_weights(stream, k.convs.weight1, false);
  const CcaQkArgs args{{gpu::rows_of<const bf16>(k.z), k.z.rows()},
                       k.segments.start_N.template data<int32_t>(),
                       k.convs.weight0.template data<bf16>(),
                       k.convs.bias0.template data<bf16>(),
                       packed1.data<bf16>(),
                       k.convs.bias1.template data<bf16>(),
                       gpu::data_of<const bf16>(k.temp),
                       table.data<float>(),
                       static_cast<int>(k.form.nq),
                       static_cast<int>(k.form.nk),
                       static_cast<int>(k.form.rope.rotary_dim),
                       k.form.temperature};
  stream.allow_shared(cca_qk_tiles<kGrad>, sizeof(TileMemory));
  stream.launch(cca_qk_tiles<kGrad>,
                {.blocks = k.form.nq + k.form.nk,
                 .blocks_y = blocks_of(gpu::blocks_for(k.z.rows(), kTokens)),
                 .threads = kTileThreads,
                 .shared_bytes = sizeof(TileMemory)},
                args, HeadRows{gpu::rows_of<const bf16>(dout), k.z.rows()}, gpu::rows_of<bf16>(out),
                gpu::data_of<float>(parts));
}

}  // namespace

void CcaQk::on_gpu(gpu::Stream& stream) const {
  if (!takes_fused(stream, *this) || !gpu::is_wide(gpu::rows_of<bf16>(out))) {
    return cca_qk_steps(*this, [&](const auto& kernel) { kernel.on_gpu(stream); });
  }
  run_tiles<false>(stream, *this, Tensor(), out, Tensor());
}

void CcaQkGrad::on_gpu(gpu::Stream& stream) const {
  const bool all = dz.grad && dweight0.grad && dbias0.grad && dweight1.grad && dbias1.grad;
  if (!takes_fused(stream, *this) || !all || !gpu::is_wide(gpu::rows_of<bf16>(dout)) ||
      !gpu::is_wide(gpu::rows_of<bf16>(dz.grad))) {
    return cca_qk_grad_steps(*this, [&](const auto& kernel) { kernel.on_gpu(stream); });
  }
  const Tensor dy(z.shape(), z.dtype(), z.device(), Purpose::workspace);
  Tensor parts;
  if (dtemp.grad) {
    parts = Tensor({z.rows(), form.nk}, DType::f32, z.device(), Purpose::workspace);
  }
  run_tiles<true>(stream, *this, dout, dy, parts);
  if (dtemp.grad) {
    gpu::sum_rows(stream, z.rows(), form.nk,
                  CcaQkTempTerm{gpu::data_of<const float>(parts), form.nk},
                  dtemp.grad.data<float>(), dtemp.accumulate);
  }
  convolution_gradients(stream, *this, dy);
}

}  // namespace tephra::kernel
