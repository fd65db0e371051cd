// SPDX-License-Identifier: Apache-2.0
// A decode step's mixing over time: the convolutions of queries and keys, then attention over the
// paged caches. A row's parts of keys are put together by the block that comes last.
#include "tephra/models/zaya1/decode_mixing.h"

namespace tephra::zaya1 {
namespace {

// Blocks: eight channels of a head, groups of sixteen rows.
__global__ void __launch_bounds__(gpu::kSkinnyThreads)
    decode_convolutions(DecodeLayer l, DecodeWork w, DecodeSizes sizes, int rows) {
  gpu::let_next_kernel_start();
  constexpr int kStride = decode_shared_stride(kTapsWidth);
  __shared__ gpu::Bits128 room[gpu::kSkinnyTokens * kStride / gpu::kWide];
  bf16* taps = reinterpret_cast<bf16*>(room);
  __shared__ gpu::SkinnySums<1> sums;
  const int first = static_cast<int>(blockIdx.x) * gpu::kSkinnyRows;
  const int head = first / kHeadDim * kHeadDim;
  gpu::Bf16Matrix::Held<1, 1> weights;
  weights.fetch(l.conv1, [&](int) { return int64_t{first}; });
  const int own_token = static_cast<int>(threadIdx.x) / gpu::kSkinnyRows;
  const int own = static_cast<int>(threadIdx.x) % gpu::kSkinnyRows;
  const float bias = float(l.conv1_bias[first + own]);
  gpu::wait_for_kernel_ahead();
  for (int begin = static_cast<int>(blockIdx.y) * gpu::kSkinnyTokens; begin < rows;
       begin += static_cast<int>(gridDim.y) * gpu::kSkinnyTokens) {
    const int count = rows - begin < gpu::kSkinnyTokens ? rows - begin : gpu::kSkinnyTokens;
    constexpr int kUnits = kHeadDim / gpu::kWide;
    for (int i = static_cast<int>(threadIdx.x); i < count * kUnits; i += gpu::kSkinnyThreads) {
      const int token = i / kUnits, channel = i % kUnits * gpu::kWide;
      DecodeTaps::load(l, w, sizes, begin + token, w.slots[begin + token], head + channel)
          .convolve(DecodeTapWeights::load(l, head + channel),
                    taps + token * kStride + 2 * channel);
    }
    __syncthreads();
    gpu::multiply_tokens<1, 1>(
        weights, [&](int i) -> const bf16* { return i < count ? taps + i * kStride : nullptr; },
        sums);
    __syncthreads();
    if (own_token < count) {
      w.convolved[int64_t{begin + own_token} * sizes.channels() + first + own] =
          bf16(sums.total(own_token, own) + bias);
    }
    __syncthreads();
  }
}

constexpr int kPartWidth = kHeadDim + 2;  // of a head: weighed values, largest score, total

// Puts a row's parts together, in order. They were written by other blocks of this kernel, so they
// are read past the nearest cache, several at once.
template <int kGroup>
__device__ void decode_combine(const float* parts, int count, bf16* out) {
  constexpr int kAtOnce = DecodeCombined::kAtOnce, kStep = kGroup * kPartWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kGroup * kHeadDim; i += gpu::kThreads) {
    const float* own = parts + i / kHeadDim * kPartWidth;
    DecodeCombined combined;
    for (int begin = 0; begin < count; begin += kAtOnce) {
      const int left = count - begin < kAtOnce ? count - begin : kAtOnce;
      const auto at = [&](int p) { return own + (begin + (p < left ? p : 0)) * kStep; };
      float value[kAtOnce];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) value[p] = gpu::load_fresh(at(p) + i % kHeadDim);
      const float* of_lane = at(static_cast<int>(threadIdx.x) % 32) + kHeadDim;
      combined.add(gpu::load_fresh(of_lane), gpu::load_fresh(of_lane + 1), left,
                   [&](int p) { return value[p]; });
    }
    out[i] = combined.result();
  }
}

// The group's heads; when `writes`, the newest rows of the caches and the state after them. All
// that is read is asked for before anything is written.
template <int kGroup>
__device__ void decode_new_rows(const DecodeAttention& a, int64_t row, int64_t slot, int kv_head,
                                bool writes, int64_t cache_row, DecodeAttentionShared& shared) {
  constexpr int kUnits = (kGroup + 1) * kHeadDim / gpu::kWide, kValueUnits = kHeadDim / gpu::kWide;
  static_assert(kUnits + kValueUnits <= gpu::kThreads, "a thread has eight columns");
  const int unit = static_cast<int>(threadIdx.x), value_unit = unit - gpu::kThreads + kValueUnits;
  const int channel =
      decode_head_channel(a.sizes, kv_head, unit / kKeyLanes) + unit % kKeyLanes * gpu::kWide;
  DecodeTaps taps{};
  DecodeValue value{};
  if (writes && unit < kUnits)
    taps = DecodeTaps::load(a.layer, a.work, a.sizes, row, slot, channel);
  if (writes && value_unit >= 0) value = DecodeValue::load(a, row, slot, kv_head, value_unit);
  const DecodeTurn turn(a, row, kv_head);
  const bf16* latents = a.work.latents + row * (a.sizes.channels() + a.sizes.values());
  const bf16* convolved = a.work.convolved + row * a.sizes.channels();
  const int query = decode_head_channel(a.sizes, kv_head, 0);
  const int key = decode_head_channel(a.sizes, kv_head, kGroup);
  decode_heads<kGroup>(a, {latents + query, latents + key}, {convolved + query, convolved + key},
                       turn, kv_head, writes, cache_row, shared);
  if (writes && unit < kUnits) taps.remember(a.layer, a.sizes, slot, channel);
  if (writes && value_unit >= 0) value.remember(a, slot, cache_row, shared);
}

// Blocks: some for the parts of a row's keys, KV heads, rows. Older keys and values are asked for
// before the kernel ahead is waited for.
template <int kGroup>
__global__ void __launch_bounds__(gpu::kThreads, 2) decode_attention(DecodeAttention a) {
  gpu::let_next_kernel_start();
  auto& shared = *gpu::dynamic_shared<DecodeAttentionShared>();
  const int64_t row = blockIdx.z;
  const int kv_head = static_cast<int>(blockIdx.y), side_by_side = static_cast<int>(gridDim.x);
  const DecodeKeys keys(a.work.positions[row], a.layer.window);
  const int blocks = keys.parts < side_by_side ? keys.parts : side_by_side;
  if (static_cast<int>(blockIdx.x) >= blocks) return;
  const int64_t slot = a.work.slots[row];
  const DecodeKeyRows rows(a, slot);
  DecodePartsWalk<kGroup> walk(a, keys, rows, kv_head, static_cast<int>(blockIdx.x), side_by_side,
                               shared);
  // The block with the newest key writes it.
  const bool writes = (keys.parts - 1) % side_by_side == static_cast<int>(blockIdx.x);
  const int64_t cache_row = rows[keys.position];
  const int64_t place = row * a.sizes.kv_heads + kv_head;
  float* parts = a.work.parts + place * kDecodeParts * kGroup * kPartWidth;
  bf16* out = a.work.attended + row * a.sizes.queries() + kv_head * kGroup * kHeadDim;
  gpu::wait_for_kernel_ahead();
  decode_new_rows<kGroup>(a, row, slot, kv_head, writes, cache_row, shared);
  __syncthreads();
  walk.run([&](int part, const DecodeWeighed& weighed) {
    weighed.each(kGroup, [&](int g, int c, float sum) {
      if (keys.parts == 1) {
        out[g * kHeadDim + c] = bf16(sum / shared.total[g]);
        return;
      }
      float* to = parts + (part * kGroup + g) * kPartWidth;
      to[c] = sum;
      if (c == 0) {
        to[kHeadDim] = shared.largest[g];
        to[kHeadDim + 1] = shared.total[g];
      }
    });
  });
  if (keys.parts == 1) return;
  if (blocks == 1) {  // no other block's
    decode_combine<kGroup>(parts, keys.parts, out);
    return;
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) shared.last = atomicAdd(a.work.arrived + place, 1) == blocks - 1;
  __syncthreads();
  if (!shared.last) return;
  __threadfence();
  decode_combine<kGroup>(parts, keys.parts, out);
  if (threadIdx.x == 0) a.work.arrived[place] = 0;
}

}  // namespace

void decode_convolve(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                     const DecodeLayer& l) {
  const int64_t blocks = p.sizes.channels() / gpu::kSkinnyRows;
  stream.launch_early(decode_convolutions,
                      {.blocks = blocks,
                       .blocks_y = decode_token_blocks(blocks, 8, rows),
                       .threads = gpu::kSkinnyThreads},
                      l, w, p.sizes, rows);
}

void decode_attend(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                   const DecodeLayer& l) {
  constexpr int64_t kBlocks = 264;  // two for each multiprocessor of a large device
  const int64_t places = int64_t{rows} * p.sizes.kv_heads;
  visit_power(p.sizes.group(), [&]<int kGroup>() {
    constexpr int64_t kShared = sizeof(DecodeAttentionShared);
    stream.allow_shared(decode_attention<kGroup>, kShared);
    stream.launch_early(decode_attention<kGroup>,
                        {.blocks = std::clamp<int64_t>(kBlocks / places, 1, kDecodeParts),
                         .blocks_y = p.sizes.kv_heads,
                         .blocks_z = rows,
                         .threads = gpu::kThreads,
                         .shared_bytes = kShared},
                        DecodeAttention{l, w, p.sizes, rows});
  });
}

}  // namespace tephra::zaya1
