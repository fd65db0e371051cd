// SPDX-License-Identifier: Apache-2.0
// A decode step's router and experts. A block of the experts' products finds out itself which
// expert is its own and which rows chose it: there are as many blocks as distinct experts can be.
#include "tephra/models/zaya1/decode_gpu.h"

namespace tephra::zaya1 {
namespace {

// --- the router's network ---

constexpr int kRouterThreads = 512, kRouterWaves = kRouterThreads / 32;
constexpr int kRouterSteps = kDecodeRouter / gpu::kSkinnyStep;
constexpr int kRouterTiles = kDecodeRouter / gpu::kSkinnyRows / kRouterWaves;  // of a wave
constexpr int kRouterStride = decode_shared_stride(kDecodeRouter);
constexpr int kRouterClasses = (kDecodeExperts + 1 + 7) / 8 * 8;
static_assert(kRouterWaves == gpu::kSkinnyTokens, "a wave normalises a token");

struct RouterShared {
  alignas(16) bf16 second[kDecodeRouter * kRouterStride];  // the matrix
  alignas(16) bf16 a[gpu::kSkinnyTokens * kRouterStride], b[gpu::kSkinnyTokens * kRouterStride];
  bf16 logits[gpu::kSkinnyTokens][kRouterClasses];
};

__device__ float decode_gelu(float x) { return x * (0.5f * erfcf(-x * 0.70710678f)); }

// sums of sixteen rows of x with eight rows of a matrix, all columns by one wave.
template <class Weights>
__device__ void router_multiply(const bf16* x, const Weights& weights, float (&sums)[4]) {
  const gpu::SkinnyLane lane;
#pragma unroll
  for (int s = 0; s < kRouterSteps; ++s) {
    const int column = s * gpu::kSkinnyStep + lane.column;
    const auto at = [&](int row) {
      return *reinterpret_cast<const gpu::Bits128*>(x + row * kRouterStride + column);
    };
    gpu::multiply_skinny(sums, at(lane.row), at(lane.row + 8), weights(s, column));
  }
}

// f(token, row of the tile, sum) for what a thread has.
template <class F>
__device__ void router_each(const float (&sums)[4], const F& f) {
  const int row = static_cast<int>(threadIdx.x) % 32 / 4,
            column = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int c = 0; c < 4; ++c) f(row + c / 2 * 8, 2 * column + c % 2, sums[c]);
}

// Tokens that do not exist are computed as zeros and not written.
__global__ void __launch_bounds__(kRouterThreads)
    decode_router(DecodeLayer l, const bf16* states, int rows, int classes, float eps,
                  const int32_t* replayed, float* weight, int32_t* chosen) {
  extern __shared__ gpu::Bits128 decode_shared[];
  auto& shared = *reinterpret_cast<RouterShared*>(decode_shared);
  constexpr int W = gpu::kWide, kUnits = kDecodeRouter / W;
  const gpu::SkinnyLane lane;
  const int first_row = lane.wave * kRouterTiles * gpu::kSkinnyRows;
  // The matrices first: the second to shared memory, the first to registers.
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kDecodeRouter * kUnits; i += kRouterThreads) {
    *reinterpret_cast<gpu::Bits128*>(shared.second + i / kUnits * kRouterStride + i % kUnits * W) =
        gpu::load_once(l.fc2 + int64_t{i} * W);
  }
  gpu::Bits128 first[kRouterTiles][kRouterSteps];
#pragma unroll
  for (int i = 0; i < kRouterTiles; ++i) {
#pragma unroll
    for (int s = 0; s < kRouterSteps; ++s) {
      const int row = first_row + i * gpu::kSkinnyRows + lane.row;
      first[i][s] =
          gpu::load_once(l.fc1 + row * kDecodeRouter + s * gpu::kSkinnyStep + lane.column);
    }
  }
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();

  const int64_t begin = int64_t{blockIdx.x} * gpu::kSkinnyTokens, token = begin + lane.wave;
  const int at = static_cast<int>(threadIdx.x) % 32 * W;
  gpu::Floats<W> v;
  if (token < rows) v = gpu::load<W>(states + token * kDecodeRouter + at);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) sum += v[i] * v[i];
  const float mean = gpu::lanes_sum(sum, 32) / static_cast<float>(kDecodeRouter);
  const float s = 1.0f / sqrtf(mean + eps);
  const auto norm = gpu::load<W>(l.router_norm + at);
#pragma unroll
  for (int i = 0; i < W; ++i) v[i] *= s * norm[i];
  gpu::store(shared.a + lane.wave * kRouterStride + at, v);
  __syncthreads();

  const auto activate = [](float value, bf16 bias) {
    return bf16(decode_gelu(float(bf16(value + float(bias)))));
  };
#pragma unroll
  for (int i = 0; i < kRouterTiles; ++i) {
    float sums[4] = {};
    router_multiply(
        shared.a, [&](int step, int) { return first[i][step]; }, sums);
    router_each(sums, [&](int t, int r, float value) {
      const int row = first_row + i * gpu::kSkinnyRows + r;
      shared.b[t * kRouterStride + row] = activate(value, l.fc1_bias[row]);
    });
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kRouterTiles; ++i) {
    float sums[4] = {};
    const bf16* matrix =
        shared.second + (first_row + i * gpu::kSkinnyRows + lane.row) * kRouterStride;
    router_multiply(
        shared.b,
        [&](int, int column) { return *reinterpret_cast<const gpu::Bits128*>(matrix + column); },
        sums);
    router_each(sums, [&](int t, int r, float value) {
      const int row = first_row + i * gpu::kSkinnyRows + r;
      shared.a[t * kRouterStride + row] = activate(value, l.fc2_bias[row]);
    });
  }
  __syncthreads();
  if (lane.wave * gpu::kSkinnyRows < classes) {
    float sums[4] = {};
    const int row = lane.wave * gpu::kSkinnyRows + lane.row;
    const bf16* matrix = l.router_out + (row < classes ? row : classes - 1) * kDecodeRouter;
    router_multiply(
        shared.a,
        [&](int, int column) { return *reinterpret_cast<const gpu::Bits128*>(matrix + column); },
        sums);
    router_each(sums, [&](int t, int r, float value) {
      shared.logits[t][lane.wave * gpu::kSkinnyRows + r] = bf16(value);
    });
  }
  __syncthreads();
  if (threadIdx.x >= gpu::kSkinnyTokens || begin + threadIdx.x >= rows) return;
  // As ops/route_gpu.cu.
  const bf16* logits = shared.logits[threadIdx.x];
  float shift = -INFINITY, total = 0;
  for (int c = 0; c < classes; ++c) shift = fmaxf(shift, float(logits[c]));
  for (int c = 0; c < classes; ++c) total += expf(float(logits[c]) - shift);
  const auto probability = [&](int c) { return expf(float(logits[c]) - shift) / total; };
  int best = 0;
  float best_score = probability(0) + l.balancing[0];
  for (int c = 1; c < classes; ++c) {
    const float score = probability(c) + l.balancing[c];
    if (score > best_score) {
      best = c;
      best_score = score;
    }
  }
  const int told = replayed[begin + threadIdx.x];
  if (told >= 0) best = told;
  weight[begin + threadIdx.x] = probability(best);
  chosen[begin + threadIdx.x] = best;
}

// --- the experts ---

// The expert of a block and the rows that chose it, in order.
struct ExpertRows {
  uint32_t present;
  int chosen[kDecodeRows];
  int row[kDecodeRows];
  int before[kDecodeRows / 32];  // rows of the expert in each 32, then before them
  int count;
  int expert;  // -1: none
};

// `index` numbers the distinct experts. All threads take part.
__device__ void find_expert_rows(const volatile int32_t* chosen, int rows, int experts, int index,
                                 ExpertRows& shared) {
  const int i = static_cast<int>(threadIdx.x);
  if (rows == 1) {  // nothing to look for: no time is lost before the matrix is asked for
    if (i == 0) {
      shared.chosen[0] = chosen[0];
      shared.row[0] = 0;
      shared.expert = shared.chosen[0] < experts ? shared.chosen[0] : -1;
      shared.count = shared.expert < 0 ? 0 : 1;
    }
    __syncthreads();
    return;
  }
  if (i == 0) shared.present = 0;
  __syncthreads();
  if (i < rows) {
    shared.chosen[i] = chosen[i];
    if (shared.chosen[i] < experts) atomicOr(&shared.present, 1u << shared.chosen[i]);
  }
  __syncthreads();
  uint32_t left = shared.present;
  for (int k = 0; k < index; ++k) left &= left - 1;  // without its lowest bit
  int expert = -1;
  for (int e = experts - 1; e >= 0; --e) expert = (left >> e & 1u) != 0 ? e : expert;
  if (i < kDecodeRows / 32) {
    int count = 0;
    for (int k = i * 32; k < (i + 1) * 32 && k < rows; ++k) count += shared.chosen[k] == expert;
    shared.before[i] = count;
  }
  __syncthreads();
  if (i < rows && shared.chosen[i] == expert) {
    int place = 0;
    for (int k = 0; k < i / 32; ++k) place += shared.before[k];
    for (int k = i / 32 * 32; k < i; ++k) place += shared.chosen[k] == expert;
    shared.row[place] = i;
  }
  if (i == 0) {
    int count = 0;
    for (int k = 0; k < kDecodeRows / 32; ++k) count += shared.before[k];
    shared.count = expert < 0 ? 0 : count;
    shared.expert = expert;
  }
  __syncthreads();
}

__device__ float decode_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Blocks: eight columns of the activations, distinct experts. A block has the gate's rows for them
// and the other's.
template <class Stored, int kSteps>
__global__ void __launch_bounds__(gpu::kSkinnyThreads, (Stored::template Held<2, kSteps>::kBlocks))
    decode_experts_up(const void* matrices, const int32_t* chosen, DecodeInput input, int rows,
                      int experts, int width, bf16* activated) {
  extern __shared__ gpu::Bits128 decode_shared[];
  __shared__ gpu::SkinnySums<2> sums;
  __shared__ ExpertRows own;
  DecodeRowsReader reader(input, kSteps * gpu::kSkinnyColumns, decode_shared);
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  find_expert_rows(chosen, rows, experts, static_cast<int>(blockIdx.y), own);
  if (own.expert < 0) return;
  const int first = static_cast<int>(blockIdx.x) * gpu::kSkinnyRows;
  typename Stored::template Held<2, kSteps> weights;
  weights.fetch(matrices, [&](int i) { return (int64_t{own.expert} * 2 + i) * width + first; });
  reader.ready(rows);
  for (int begin = 0; begin < own.count; begin += gpu::kSkinnyTokens) {
    if (begin > 0) __syncthreads();
    gpu::multiply_tokens<2, kSteps>(
        weights,
        [&](int i) -> const bf16* {
          return begin + i < own.count ? reader[own.row[begin + i]] : nullptr;
        },
        sums);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < gpu::kSkinnyTokens * gpu::kSkinnyRows;
         i += gpu::kSkinnyThreads) {
      const int token = i / gpu::kSkinnyRows, c = i % gpu::kSkinnyRows;
      if (begin + token >= own.count) continue;
      const float gate = float(bf16(sums.total(token, c)));
      const float up = float(bf16(sums.total(token, c + gpu::kSkinnyRows)));
      activated[int64_t{own.row[begin + token]} * width + first + c] =
          bf16(gate * decode_sigmoid(gate) * up);
    }
  }
}

// Blocks: columns of the stream, distinct experts. The choice was made two kernels ahead, which has
// ended before this one starts (decode_experts_up lets it start when it has waited for it), so the
// matrix is fetched while the kernel ahead runs. The first expert's blocks also merge the rows that
// skipped.
template <class Stored, int kTiles, int kSteps>
__global__ void __launch_bounds__(gpu::kSkinnyThreads,
                                  (Stored::template Held<kTiles, kSteps>::kBlocks))
    decode_experts_down(const void* matrices, const int32_t* chosen, const float* chosen_weight,
                        const bf16* activated, int rows, int experts, DecodeMerged merged) {
  constexpr int kWidth = gpu::SkinnySums<kTiles>::kWidth, kDepth = kSteps * gpu::kSkinnyColumns;
  __shared__ gpu::SkinnySums<kTiles> sums;
  __shared__ ExpertRows own;
  find_expert_rows(chosen, rows, experts, static_cast<int>(blockIdx.y), own);
  const int first = static_cast<int>(blockIdx.x) * kWidth;
  typename Stored::template Held<kTiles, kSteps> weights;
  if (own.expert >= 0) {
    const int64_t row = int64_t{own.expert} * merged.width + first;
    weights.fetch(matrices, [&](int i) { return row + i * gpu::kSkinnyRows; });
  }
  const int token = static_cast<int>(threadIdx.x) / kWidth;
  const int c = static_cast<int>(threadIdx.x) % kWidth;
  const DecodeMerged::Column column = merged.column(first + c);
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  if (blockIdx.y == 0) {
    for (int row = token; row < rows; row += gpu::kSkinnyThreads / kWidth) {
      if (own.chosen[row] >= experts) column.write(row, column.before(row), bf16(0.0f));
    }
  }
  for (int begin = 0; begin < own.count; begin += gpu::kSkinnyTokens) {
    if (begin > 0) __syncthreads();
    const bool mine = token < gpu::kSkinnyTokens && begin + token < own.count;
    const int row = mine ? own.row[begin + token] : 0;
    const float before = mine ? column.before(row) : 0.0f;
    const float weight = mine ? chosen_weight[row] : 0.0f;
    gpu::multiply_tokens<kTiles, kSteps>(
        weights,
        [&](int i) -> const bf16* {
          return begin + i < own.count ? activated + int64_t{own.row[begin + i]} * kDepth : nullptr;
        },
        sums);
    __syncthreads();
    if (mine) column.write(row, before, bf16(float(bf16(sums.total(token, c))) * weight));
  }
}

}  // namespace

bool decode_takes_device(Device device) {
  return gpu::most_shared_bytes(device) >= int64_t{sizeof(RouterShared)};
}

void decode_choose(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                   const DecodeLayer& l, const int32_t* replayed, int32_t* chosen) {
  stream.allow_shared(decode_router, sizeof(RouterShared));
  stream.launch_early(decode_router,
                      {.blocks = gpu::blocks_for(rows, gpu::kSkinnyTokens),
                       .threads = kRouterThreads,
                       .shared_bytes = sizeof(RouterShared)},
                      l, w.router, rows, p.sizes.experts + 1, p.sizes.eps, replayed,
                      w.chosen_weight, chosen);
}

void decode_expert_up(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                      const DecodeLayer& l, const int32_t* chosen) {
  const bool few = rows <= kDecodeNormedRows;
  const DecodeInput input = few ? DecodeInput{nullptr, w.stream, l.mlp_norm, p.sizes.eps}
                                : DecodeInput{w.normed, nullptr, nullptr, 0};
  const int64_t shared = decode_shared_bytes(input, p.sizes.hidden);
  visit_stored(l.gate_up, [&]<class Stored>() {
    visit_depth(p.sizes.hidden, [&]<int kSteps>() {
      const auto kernel = decode_experts_up<Stored, kSteps>;
      if (shared > 0) stream.allow_shared(kernel, shared);
      stream.launch_early(kernel,
                          {.blocks = p.sizes.expert_hidden / gpu::kSkinnyRows,
                           .blocks_y = std::min(rows, p.sizes.experts),
                           .threads = gpu::kSkinnyThreads,
                           .shared_bytes = shared},
                          l.gate_up.data, chosen, input, rows, p.sizes.experts,
                          p.sizes.expert_hidden, w.activated);
    });
  });
}

void decode_expert_down(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                        const DecodeLayer& l, const int32_t* chosen) {
  const DecodeMerged merged{l.after_mlp, w.stream, p.sizes.hidden};
  visit_stored(l.down, [&]<class Stored>() {
    visit_depth(p.sizes.expert_hidden, [&]<int kSteps>() {
      const auto launch = [&]<int kTiles>() {
        stream.launch_early(decode_experts_down<Stored, kTiles, kSteps>,
                            {.blocks = p.sizes.hidden / (kTiles * gpu::kSkinnyRows),
                             .blocks_y = std::min(rows, p.sizes.experts),
                             .threads = gpu::kSkinnyThreads},
                            l.down.data, chosen, w.chosen_weight, w.activated, rows,
                            p.sizes.experts, merged);
      };
      if (rows > gpu::kSkinnyTokens) {
        launch.template operator()<2>();
      } else {
        launch.template operator()<1>();
      }
    });
  });
}

}  // namespace tephra::zaya1
