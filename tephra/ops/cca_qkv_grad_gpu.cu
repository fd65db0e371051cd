// SPDX-License-Identifier: Apache-2.0
// The backward pass in two kernels: one for the gradients of the latents and, in parts, for all
// sums over tokens; one that adds the parts in order.
//
// The first deals its work out to blocks as they ask for it: runs of tiles that give dy, then
// stretches of tokens for the weights of the second convolution, then spans of tiles that go on
// from dy to the latents, then values. The mean takes dy of a key to its queries and back, so
// whoever reads dy waits until all heads of a key have counted in for those tokens. That cannot
// last: what is waited for was dealt out before.
#include "tephra/ops/cca_qkv_heads_gpu.h"
#include "tephra/ops/cca_qkv_latent_grad_gpu.h"
#include "tephra/ops/cca_qkv_steps.h"
#include "tephra/ops/cca_qkv_weight_grad_gpu.h"
#include "tephra/ops/rotary_table_gpu.h"

namespace tephra::kernel {
namespace {

using namespace cca;

constexpr int kValueTokens = 512;  // moved at a time

struct GradArgs {
  HeadArgs heads;
  LatentArgs latents;
  WeightArgs weights;
  ValueRows values;
  HeadRows dout;
  gpu::Rows<bf16> dy;
  int run_tokens;
  float* temp_parts;  // [runs][nk]
  int* dealt;
  int* counted;  // [runs][nk]: heads of a key that have dy
  struct {
    int runs, stretches, spans, values;
  } ends;  // pieces of work are numbered in this order

  __device__ int tokens() const { return heads.z.tokens; }
  __device__ int all_heads() const { return heads.nq + heads.nk; }
  __device__ int key_of(int head) const {
    return head < heads.nq ? head / (heads.nq / heads.nk) : head - heads.nq;
  }
};

// The next piece of work, for all threads; what they did before is done.
__device__ int deal(int* dealt) {
  __shared__ int piece;
  __syncthreads();
  if (threadIdx.x == 0) piece = atomicAdd(dealt, 1);
  __syncthreads();
  return piece;
}

// Counts a block in, once all its threads have written what others wait for.
__device__ void count_in(int* count) {
  __syncthreads();
  if (threadIdx.x > 0) return;
  __threadfence();
  atomicAdd(count, 1);
}

// Until dy of the heads of this one's key is there for tokens [begin, end).
__device__ void wait_for_dy(const GradArgs& a, int head, int begin, int end) {
  if (threadIdx.x == 0) {
    const int last = (end < a.tokens() ? end : a.tokens()) - 1;
    for (int run = begin / a.run_tokens; run <= last / a.run_tokens; ++run) {
      const volatile int* count = a.counted + run * a.heads.nk + a.key_of(head);
      while (*count <= a.heads.nq / a.heads.nk) {
      }
    }
    __threadfence();
  }
  __syncthreads();
}

template <int kDim>
__device__ void run_heads(Tile<kDim>& m, const GradArgs& a, int head, int run) {
  const int first = run * a.run_tokens, rest = first + a.run_tokens;
  const int end = rest < a.tokens() ? rest : a.tokens();
  const float dtemp = run_tiles<true>(m, a.heads, head, first, kTokens, end, a.dout, a.dy);
  if (a.temp_parts && head >= a.heads.nq) {
    const float sum = gpu::block_sum(threadIdx.x % 4 == 0 ? dtemp : 0.0f);
    if (threadIdx.x == 0) a.temp_parts[run * a.heads.nk + head - a.heads.nq] = sum;
  }
  count_in(a.counted + run * a.heads.nk + a.key_of(head));
}

template <int kDim>
__global__ void __launch_bounds__(kTileThreads, 2) cca_qkv_grad(GradArgs a) {
  static_assert(sizeof(WeightStep<kDim>) <= sizeof(Tile<kDim>));
  auto& m = *gpu::dynamic_shared<Tile<kDim>>();
  auto& step = *gpu::dynamic_shared<WeightStep<kDim>>();
  constexpr int kSlices = kDim / kSliceInputs;
  int piece = deal(a.dealt);
  // A key has more to add up than its queries and comes first.
  for (; piece < a.ends.runs; piece = deal(a.dealt)) {
    run_heads(m, a, a.all_heads() - 1 - piece % a.all_heads(), piece / a.all_heads());
  }
  for (; piece < a.ends.stretches; piece = deal(a.dealt)) {
    const int at = piece - a.ends.runs, slices = a.all_heads() * kSlices;
    const int head = at % slices / kSlices;
    const int stretch = at / slices;
    wait_for_dy(a, head, stretch * a.weights.stretch, (stretch + 1) * a.weights.stretch);
    run_stretch(step, a.weights, head, at % kSlices, stretch);
  }
  for (; piece < a.ends.spans; piece = deal(a.dealt)) {
    const int at = piece - a.ends.stretches, head = a.all_heads() - 1 - at % a.all_heads();
    const int span = at / a.all_heads();
    wait_for_dy(a, head, span * a.latents.span_tokens, (span + 1) * a.latents.span_tokens + 2);
    run_span(m, a.latents, head, span);
  }
  for (; piece < a.ends.values; piece = deal(a.dealt)) {
    const int first = (piece - a.ends.spans) * kValueTokens, rest = first + kValueTokens;
    shift_values<true>(a.values, first, rest < a.tokens() ? rest : a.tokens());
  }
}

// --- the sums of parts ------------------------------------------------------------------------

struct SumArgs {
  const float *weight_parts, *latent_parts, *temp_parts;
  int stretches, spans, runs;
  int nq, nk;
  const bf16* weight1;
  float *dweight0, *dbias0, *dweight1, *dbias1, *dtemp;
  bool accumulate0, accumulate_bias0, accumulate1, accumulate_bias1, accumulate_temp;
};

__device__ float sum_of(const float* parts, int64_t stride, int count) {
  float sum = 0;
#pragma unroll 16
  for (int i = 0; i < count; ++i) sum += parts[i * stride];
  return sum;
}

// dweight1[c, i, k] for both taps.
template <int kDim>
__device__ void sum_weight(const SumArgs& a, int64_t element) {
  constexpr int64_t kPart = kDim * kTaps * kDim;
  const int64_t channel = element / kDim, head = channel / kDim, c = channel % kDim;
  const float* parts =
      a.weight_parts + head * a.stretches * kPart + c * kTaps * kDim + element % kDim;
  for (int k = 0; k < kTaps; ++k) {
    gpu::write(a.dweight1 + element * kTaps + k, sum_of(parts + k * kDim, kPart, a.stretches),
               a.accumulate1);
  }
}

// A head's sums of the first convolution and of both biases. What reaches the first convolution's
// output, before the document or in it, has come through either tap: its bias has dbias1 through
// the weights.
template <int kDim>
__device__ void sum_head(const SumArgs& a, int head) {
  __shared__ float bias1[kDim], shares[gpu::kThreads];
  const int64_t channels = int64_t{a.nq + a.nk} * kDim, first = int64_t{head} * kDim;
  const int thread = static_cast<int>(threadIdx.x), i = thread % kDim;
  for (int at = thread; at < 3 * kDim; at += gpu::kThreads) {
    const bool of_bias = at >= 2 * kDim;
    const int64_t column = of_bias ? 2 * channels + first + at - 2 * kDim : 2 * first + at;
    const float sum = sum_of(a.latent_parts + column, 3 * channels, a.spans);
    if (!of_bias) {
      gpu::write(a.dweight0 + column, sum, a.accumulate0);
    } else {
      bias1[at - 2 * kDim] = sum;
      gpu::write(a.dbias1 + first + at - 2 * kDim, sum, a.accumulate_bias1);
    }
  }
  __syncthreads();
  constexpr int kShares = gpu::kThreads / kDim, kEach = kDim / kShares;
  const auto* weights = reinterpret_cast<const uint32_t*>(a.weight1) + first * kDim + i;
  float sum = 0;
#pragma unroll 16
  for (int k = 0; k < kEach; ++k) {
    const int c = thread / kDim * kEach + k;
    const uint32_t taps = weights[c * kDim];
    sum += (__builtin_bit_cast(float, taps << 16) + __builtin_bit_cast(float, taps & 0xffff0000u)) *
           bias1[c];
  }
  shares[thread] = sum;
  __syncthreads();
  if (thread < kDim) {
    for (int k = 1; k < kShares; ++k) sum += shares[k * kDim + thread];
    gpu::write(a.dbias0 + first + thread, sum, a.accumulate_bias0);
  }
  if (!a.dtemp || head < a.nq) return;
  float part = 0;
  for (int run = thread; run < a.runs; run += gpu::kThreads) {
    part += a.temp_parts[int64_t{run} * a.nk + head - a.nq];
  }
  part = gpu::block_sum(part);
  if (thread == 0) gpu::write(a.dtemp + head - a.nq, part, a.accumulate_temp);
}

// The first blocks have a head each, the others elements of dweight1.
template <int kDim>
__global__ void cca_qkv_sums(SumArgs a) {
  const int heads = a.nq + a.nk, block = static_cast<int>(blockIdx.x);
  if (block < heads) return sum_head<kDim>(a, block);
  sum_weight<kDim>(a, int64_t{block - heads} * gpu::kThreads + threadIdx.x);
}

template <int kDim>
void run_fused(gpu::Stream& stream, const CcaQkvGrad& k) {
  const int64_t tokens = k.z.rows(), heads = k.form.nq + k.form.nk, channels = heads * kDim;
  const int64_t run_tokens = tiles_each(gpu::blocks_for(tokens, kTokens)) * kTokens;
  const int64_t span_tokens = tiles_each(gpu::blocks_for(tokens, kOwnTokens)) * kOwnTokens;
  const int64_t runs = gpu::blocks_for(tokens, run_tokens), stretch = stretch_of(tokens);
  const int64_t stretches = gpu::blocks_for(tokens, stretch);
  const int64_t spans = gpu::blocks_for(tokens, span_tokens);
  const auto workspace = [&](const Shape& shape, DType dtype) {
    return Tensor(shape, dtype, k.z.device(), Purpose::workspace);
  };
  const Tensor dy = workspace({tokens, channels}, DType::bf16);
  const Tensor weight_parts = workspace({channels * stretches, kTaps * kDim}, DType::f32);
  const Tensor latent_parts = workspace({spans, 3 * channels}, DType::f32);
  const Tensor temp_parts = k.dtemp.grad ? workspace({runs, k.form.nk}, DType::f32) : Tensor();
  const Tensor counts = workspace({1 + runs * k.form.nk}, DType::i32);
  gpu::fill_bytes(k.z.device(), counts.data<int32_t>(), 0, counts.numel() * 4);

  const Tensor angles = gpu::kept_rotary_table(stream, tokens, k.form.rope);
  GradArgs a{};
  a.heads = head_args(k, angles);
  const HeadArgs& h = a.heads;
  const HeadRows read_dy{gpu::rows_of<const bf16>(dy), h.z.tokens};
  a.latents = {read_dy,
               h.z,
               h.start,
               k.segments.end_N.data<int32_t>(),
               h.weight0,
               h.bias0,
               h.weight1,
               h.nq,
               h.nk,
               gpu::rows_of<bf16>(k.dz.grad),
               k.dz.accumulate,
               static_cast<int>(span_tokens),
               latent_parts.data<float>()};
  a.weights = {read_dy,
               h.z,
               h.start,
               h.weight0,
               h.bias0,
               static_cast<int>(stretch),
               static_cast<int>(stretches),
               weight_parts.data<float>()};
  a.values = value_rows(k.dout, k.dz.grad, k.segments.end_N, k.form, k.dz.accumulate);
  a.dout = {gpu::rows_of<const bf16>(k.dout), h.z.tokens};
  a.dy = gpu::rows_of<bf16>(dy);
  a.run_tokens = static_cast<int>(run_tokens);
  a.temp_parts = gpu::data_of<float>(temp_parts);
  a.dealt = counts.data<int32_t>();
  a.counted = a.dealt + 1;
  const int64_t value_pieces = a.values.half > 0 ? gpu::blocks_for(tokens, kValueTokens) : 0;
  a.ends.runs = static_cast<int>(runs * heads);
  a.ends.stretches = a.ends.runs + static_cast<int>(stretches * heads * kDim / kSliceInputs);
  a.ends.spans = a.ends.stretches + static_cast<int>(spans * heads);
  a.ends.values = a.ends.spans + static_cast<int>(value_pieces);

  constexpr int64_t kBlocks = 264;  // two for each multiprocessor of the largest devices
  stream.allow_shared(cca_qkv_grad<kDim>, sizeof(Tile<kDim>));
  stream.launch(cca_qkv_grad<kDim>,
                {.blocks = kBlocks, .threads = kTileThreads, .shared_bytes = sizeof(Tile<kDim>)},
                a);
  const SumArgs sums{weight_parts.data<float>(),
                     latent_parts.data<float>(),
                     gpu::data_of<const float>(temp_parts),
                     a.weights.stretches,
                     static_cast<int>(spans),
                     static_cast<int>(runs),
                     h.nq,
                     h.nk,
                     h.weight1,
                     k.dweight0.grad.data<float>(),
                     k.dbias0.grad.data<float>(),
                     k.dweight1.grad.data<float>(),
                     k.dbias1.grad.data<float>(),
                     gpu::data_of<float>(k.dtemp.grad),
                     k.dweight0.accumulate,
                     k.dbias0.accumulate,
                     k.dweight1.accumulate,
                     k.dbias1.accumulate,
                     k.dtemp.accumulate};
  static_assert(kDim * kDim % gpu::kThreads == 0);
  stream.launch(cca_qkv_sums<kDim>,
                {.blocks = heads + channels * kDim / gpu::kThreads, .threads = gpu::kThreads},
                sums);
}

}  // namespace

void CcaQkvGrad::on_gpu(gpu::Stream& stream) const {
  const bool all = dz.grad && dweight0.grad && dbias0.grad && dweight1.grad && dbias1.grad;
  if (!all || !takes_fused(stream, *this, {&z, &dout, &dz.grad})) {
    return cca_qkv_grad_steps(*this, [&](const auto& kernel) { kernel.on_gpu(stream); });
  }
  visit_heads(form.rope.head_dim, [&]<int kDim>() { run_fused<kDim>(stream, *this); });
}

}  // namespace tephra::kernel
