// SPDX-License-Identifier: Apache-2.0
// A decode step's router and experts. A block of the experts' products finds out itself which
// expert is its own and which rows chose it: there are as many blocks as distinct experts can be.
#include "tephra/models/zaya1/decode_experts_gpu.h"
#include "tephra/models/zaya1/decode_router_gpu.h"

namespace tephra::zaya1 {
namespace {

// --- the router's network ---

// A block has eight tokens.
constexpr int kRouterThreads = 512, kRouterTokens = 8;
static_assert(kRouterThreads / 32 * kRouterRows == kDecodeRouter);

// The first matrix stays in registers; the second is fetched beside it where shared memory has room
// (135 KB), else it follows it.
template <bool kHasRoom>
struct RouterShared {
  alignas(16) bf16 second[kHasRoom ? kDecodeRouter * kRouterStride : 8];
  alignas(16) bf16 last[kRouterClasses * kRouterStride];
  alignas(16) bf16 a[kRouterTokens * kRouterStride], b[kRouterTokens * kRouterStride];
  float sums[kRouterTokens][kDecodeRouter];
  bf16 logits[kRouterTokens][kRouterClasses];
};

// What tokens that do not exist would give is not looked at. All that does not depend on the kernel
// ahead is asked for before it is waited for.
template <bool kHasRoom>
__global__ void __launch_bounds__(kRouterThreads)
    decode_router(DecodeLayer l, const bf16* states, int rows, int classes, float eps,
                  const int32_t* replayed, float* weight, int32_t* chosen) {
  auto& shared = *gpu::dynamic_shared<RouterShared<kHasRoom>>();
  constexpr int W = gpu::kWide;
  static_assert(kDecodeRouter == 32 * W, "a wave has a row");
  const gpu::SkinnyLane lane;
  const int first = lane.wave * kRouterRows, waves = static_cast<int>(blockDim.x) / 32;
  if constexpr (kHasRoom) router_fetch(l.fc2, kDecodeRouter, shared.second, waves);
  router_fetch(l.router_out, classes, shared.last, waves);
  gpu::close_copies();
  gpu::Bits128 matrix[2][kRouterSteps];
  const auto fetch = [&](const bf16* of) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = first + lane.row + i * 8;
#pragma unroll
      for (int s = 0; s < kRouterSteps; ++s) {
        matrix[i][s] =
            gpu::load_once(of + row * kDecodeRouter + s * gpu::kSkinnyStep + lane.column);
      }
    }
  };
  fetch(l.fc1);
  const int own = static_cast<int>(threadIdx.x) % kDecodeRouter;  // activates this column
  const float first_bias = float(l.fc1_bias[own]), second_bias = float(l.fc2_bias[own]);
  const int begin = static_cast<int>(blockIdx.x) * kRouterTokens, token = begin + lane.wave;
  const int count = rows - begin < kRouterTokens ? rows - begin : kRouterTokens;
  const bool has_token = lane.wave < count;
  const int in_wave = static_cast<int>(threadIdx.x) % 32, at = in_wave * W;
  const auto norm = gpu::load<W>(l.router_norm + at);
  const float balancing = in_wave < classes ? l.balancing[in_wave] : 0.0f;
  const int told = has_token ? replayed[token] : -1;
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();  // no sooner: beside others it ran 10.8 us, not 7.5

  if (has_token) {
    auto v = gpu::load<W>(states + token * kDecodeRouter + at);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < W; ++i) sum += v[i] * v[i];
    const float mean = gpu::lanes_sum(sum, 32) / static_cast<float>(kDecodeRouter);
    const float s = 1.0f / sqrtf(mean + eps);
#pragma unroll
    for (int i = 0; i < W; ++i) v[i] *= s * norm[i];
    gpu::store(shared.a + lane.wave * kRouterStride + at, v);
  }
  gpu::wait_for_copies<0>();
  __syncthreads();
  // GELU of the sums, spread over all threads.
  const auto activate = [&](float bias, bf16* to) {
    __syncthreads();
    constexpr int kAtOnce = kRouterThreads / kDecodeRouter;
    for (int t = static_cast<int>(threadIdx.x) / kDecodeRouter; t < count; t += kAtOnce) {
      to[t * kRouterStride + own] = bf16(decode_gelu(float(bf16(shared.sums[t][own] + bias))));
    }
    __syncthreads();
  };
  const auto keep_sum = [&](int t, int r, float value) { shared.sums[t][first + r] = value; };
  const auto in_shared = [&](const bf16* of) {
    return [of, &lane](int step, int upper) {
      return *reinterpret_cast<const gpu::Bits128*>(of + (lane.row + upper * 8) * kRouterStride +
                                                    step * gpu::kSkinnyStep + lane.column);
    };
  };
  const auto in_registers = [&](int step, int upper) { return matrix[upper][step]; };
  router_multiply(shared.a, count, in_registers, keep_sum);
  if constexpr (!kHasRoom) fetch(l.fc2);
  activate(first_bias, shared.b);
  if constexpr (kHasRoom) {
    router_multiply(shared.b, count, in_shared(shared.second + first * kRouterStride), keep_sum);
  } else {
    router_multiply(shared.b, count, in_registers, keep_sum);
  }
  activate(second_bias, shared.a);
  if (first < classes) {
    router_multiply(shared.a, count, in_shared(shared.last + first * kRouterStride),
                    [&](int t, int r, float value) { shared.logits[t][first + r] = bf16(value); });
  }
  __syncthreads();
  if (!has_token) return;
  const RouterChoice choice =
      router_choose(float(shared.logits[lane.wave][in_wave]), classes, balancing, told);
  if (in_wave > 0) return;
  weight[token] = choice.weight;
  chosen[token] = choice.expert;
}

// --- the experts ---

// Blocks: eight columns of the activations, distinct experts. A block has the gate's rows for them
// and the other's.
template <class Stored, int kSteps>
__global__ void __launch_bounds__(gpu::kSkinnyThreads, (Stored::template Held<2, kSteps>::kBlocks))
    decode_experts_up(const void* matrices, const int32_t* chosen, DecodeInput input, int rows,
                      int experts, int width, bf16* activated) {
  __shared__ gpu::SkinnySums<2> sums;
  __shared__ ExpertRows own;
  DecodeRowsReader reader(input, kSteps * gpu::kSkinnyColumns, gpu::dynamic_shared<gpu::Bits128>());
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  const uint32_t present = only_experts(find_chosen(chosen, rows, own), experts);
  const int expert = expert_at(present, static_cast<int>(blockIdx.y));
  if (expert < 0) return;
  const int first = static_cast<int>(blockIdx.x) * gpu::kSkinnyRows;
  typename Stored::template Held<2, kSteps> weights;
  weights.fetch(matrices, [&](int i) { return (int64_t{expert} * 2 + i) * width + first; });
  find_expert_rows(rows, expert, own);
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
      activated[int64_t{own.row[begin + token]} * width + first + c] =
          decode_activated(sums.total(token, c), sums.total(token, c + gpu::kSkinnyRows));
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
  gpu::let_next_kernel_start();
  constexpr int kWidth = gpu::SkinnySums<kTiles>::kWidth, kDepth = kSteps * gpu::kSkinnyColumns;
  __shared__ gpu::SkinnySums<kTiles> sums;
  __shared__ ExpertRows own;
  const uint32_t present = only_experts(find_chosen(chosen, rows, own), experts);
  const int expert = expert_at(present, static_cast<int>(blockIdx.y));
  const int first = static_cast<int>(blockIdx.x) * kWidth;
  typename Stored::template Held<kTiles, kSteps> weights;
  if (expert >= 0) {
    const int64_t row = int64_t{expert} * merged.width + first;
    weights.fetch(matrices, [&](int i) { return row + i * gpu::kSkinnyRows; });
  }
  find_expert_rows(rows, expert, own);
  const int token = static_cast<int>(threadIdx.x) / kWidth;
  const int c = static_cast<int>(threadIdx.x) % kWidth;
  const DecodeMerged::Column column = merged.column(first + c);
  gpu::wait_for_kernel_ahead();
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

void decode_choose(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                   const DecodeLayer& l, const int32_t* replayed, int32_t* chosen) {
  const auto launch = [&](auto kernel, int64_t shared) {
    stream.allow_shared(kernel, shared);
    stream.launch_early(kernel,
                        {.blocks = gpu::blocks_for(rows, kRouterTokens),
                         .threads = kRouterThreads,
                         .shared_bytes = shared},
                        l, w.router, rows, p.sizes.experts + 1, p.sizes.eps, replayed,
                        w.chosen_weight, chosen);
  };
  constexpr int64_t kWithRoom = sizeof(RouterShared<true>);
  if (!gpu::only_portable() && gpu::most_shared_bytes(p.device) >= kWithRoom) {
    return launch(decode_router<true>, kWithRoom);
  }
  launch(decode_router<false>, sizeof(RouterShared<false>));
}

void decode_expert_up(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                      const DecodeLayer& l, const int32_t* chosen) {
  if constexpr (gpu::kHasFastPaths) {
    if (tile_expert_up(stream, p, w, rows, l, chosen)) return;
    if (stream_expert_up(stream, p, w, rows, l, chosen)) return;
  }
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
  if constexpr (gpu::kHasFastPaths) {
    if (tile_expert_down(stream, p, w, rows, l, chosen)) return;
    if (stream_expert_down(stream, p, w, rows, l, chosen)) return;
  }
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
