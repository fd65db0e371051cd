// SPDX-License-Identifier: Apache-2.0
// A decode step's mixing over time for few rows and not too many keys, as one kernel: a cluster of
// blocks has a row's KV head with its query heads. The blocks share the second convolution and the
// keys, and pass each other what they find through shared memory. Sums are those of
// decode_mixing_gpu.cu, in its order.
#include "tephra/models/zaya1/decode_mixing.h"

namespace tephra::zaya1 {
namespace {

constexpr int kMixBlocks = 8;                        // of a cluster
constexpr int kMixChannels = kHeadDim / kMixBlocks;  // of each head, that a block convolves
constexpr int kMixTiles = kMixChannels / gpu::kSkinnyRows;

template <int kGroup>
struct DecodeMixShared {
  static constexpr int kHeads = kGroup + 1;                        // the last is the key
  static constexpr int kOutputs = kHeads * kMixChannels;           // of a block's convolution
  static constexpr int kColumns = kGroup * kHeadDim / kMixBlocks;  // that a block puts together

  DecodeAttentionShared attention;
  alignas(16) bf16 taps[kHeads][kTapsWidth];
  alignas(16) bf16 latents[kHeads][kHeadDim];
  float bias[kOutputs];
  float sums[gpu::kSkinnyWaves][kOutputs];
  // Written by the other blocks of the cluster, too: all heads after the convolutions; what the
  // parts of the keys say of this block's columns, and of the head that they belong to.
  alignas(16) bf16 convolved[kHeads][kHeadDim];
  float parts[kDecodeParts][kColumns], largest[kDecodeParts], total[kDecodeParts];
};

// A block's outputs of the second convolution: sixteen of each head.
template <int kGroup>
class DecodeMixConvolution {
 public:
  using Shared = DecodeMixShared<kGroup>;

  __device__ DecodeMixConvolution(const DecodeAttention& a, int kv_head, int rank, Shared& shared)
      : rank_(rank), shared_(shared) {
    const auto channel = [&](int output) {
      return decode_head_channel(a.sizes, kv_head, output / kMixChannels) + rank * kMixChannels +
             output % kMixChannels;
    };
    weights_.fetch(a.layer.conv1,
                   [&](int tile) { return int64_t{channel(tile * gpu::kSkinnyRows)}; });
    for (int i = static_cast<int>(threadIdx.x); i < Shared::kOutputs; i += gpu::kThreads) {
      shared.bias[i] = float(a.layer.conv1_bias[channel(i)]);
    }
  }

  // From shared.taps to `convolved` of every block of the cluster. The token is the first of the
  // sixteen that pass by in decode_convolutions.
  __device__ void run() const {
    const gpu::SkinnyLane lane;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      gpu::Bits128 token{};
      if (lane.row == 0) {
        token = *reinterpret_cast<const gpu::Bits128*>(
            &shared_.taps[tile / kMixTiles][lane.wave * gpu::kSkinnyStep + lane.column]);
      }
      float sums[4] = {};
      gpu::multiply_skinny(sums, token, gpu::Bits128{}, weights_.at(tile, 0));
      if (lane.row == 0) {
        float* to = &shared_.sums[lane.wave][tile * gpu::kSkinnyRows + lane.column / 4];
        to[0] = sums[0];
        to[1] = sums[1];
      }
    }
    __syncthreads();
    constexpr int kPairs = Shared::kOutputs / 2;
    for (int i = static_cast<int>(threadIdx.x); i < kPairs * kMixBlocks; i += gpu::kThreads) {
      const int output = i % kPairs * 2;
      bf16* to =
          &shared_.convolved[output / kMixChannels][rank_ * kMixChannels + output % kMixChannels];
      *reinterpret_cast<uint32_t*>(gpu::in_block_of_cluster(to, i / kPairs)) =
          gpu::bf16_pair(total(output), total(output + 1));
    }
  }

 private:
  static constexpr int kTiles = Shared::kHeads * kMixTiles;

  __device__ float total(int output) const {
    float sum = shared_.sums[0][output];
    for (int w = 1; w < gpu::kSkinnyWaves; ++w) sum += shared_.sums[w][output];
    return sum + shared_.bias[output];
  }

  gpu::Bf16Matrix::Held<kTiles, 1> weights_;
  int rank_;
  Shared& shared_;
};

// Blocks: a cluster, KV heads, rows. Weights, older keys and values are asked for before the kernel
// ahead is waited for.
template <int kGroup>
__global__ void __launch_bounds__(gpu::kThreads, 2) decode_mix_rows(DecodeAttention a) {
  using Shared = DecodeMixShared<kGroup>;
  gpu::let_next_kernel_start();
  gpu::arrive_at_cluster();
  extern __shared__ gpu::Bits128 decode_shared[];
  auto& shared = *reinterpret_cast<Shared*>(decode_shared);
  const int rank = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const int64_t row = blockIdx.z;
  const DecodeMixConvolution<kGroup> convolution(a, kv_head, rank, shared);
  const DecodeKeys keys(a.work.positions[row], a.layer.window);
  const DecodeKeyRows rows(a, row);
  DecodePartsWalk<kGroup> walk(a, keys, rows, kv_head, rank, kMixBlocks, shared.attention);
  const int64_t cache_row = rows[keys.position];
  const bool writes = (keys.parts - 1) % kMixBlocks == rank;  // has the newest key
  gpu::wait_for_cluster();                                    // all its blocks have begun
  gpu::wait_for_kernel_ahead();

  constexpr int kUnits = Shared::kHeads * kKeyLanes, kValueUnits = kKeyLanes;
  static_assert(kUnits + kValueUnits <= gpu::kThreads, "a thread has eight columns");
  const int unit = static_cast<int>(threadIdx.x), value_unit = unit - gpu::kThreads + kValueUnits;
  const int head = unit / kKeyLanes, at = unit % kKeyLanes * gpu::kWide;
  const int channel = decode_head_channel(a.sizes, kv_head, head) + at;
  DecodeTaps taps{};
  DecodeValue value{};
  if (unit < kUnits) taps = DecodeTaps::load(a.layer, a.work, a.sizes, row, channel);
  if (writes && value_unit >= 0) value = DecodeValue::load(a, row, kv_head, value_unit);
  const DecodeTurn turn(a, row, kv_head);
  if (unit < kUnits) {
    taps.convolve(a.layer, channel, &shared.taps[head][2 * at]);
    gpu::store_packed(&shared.latents[head][at], taps.newest);
  }
  __syncthreads();
  convolution.run();
  gpu::arrive_at_cluster();
  if (writes && value_unit >= 0) value.remember(a, row, cache_row, shared.attention);
  gpu::wait_for_cluster();
  // All blocks have read the state.
  if (unit < kUnits && unit % kMixBlocks == rank) {
    taps.remember(a.layer, a.sizes, a.work.slots[row], channel);
  }
  decode_heads<kGroup>(a, {shared.latents[0], shared.latents[kGroup]},
                       {shared.convolved[0], shared.convolved[kGroup]}, turn, kv_head, writes,
                       cache_row, shared.attention);
  __syncthreads();

  walk.run([&](int part, const DecodeWeighed& weighed) {
    weighed.each(kGroup, [&](int g, int c, float sum) {
      const int column = g * kHeadDim + c;
      float* to = &shared.parts[part][column % Shared::kColumns];
      *gpu::in_block_of_cluster(to, column / Shared::kColumns) = sum;
    });
    if (unit < kMixBlocks) {
      const int g = unit * kGroup / kMixBlocks;
      *gpu::in_block_of_cluster(&shared.largest[part], unit) = shared.attention.largest[g];
      *gpu::in_block_of_cluster(&shared.total[part], unit) = shared.attention.total[g];
    }
  });
  gpu::arrive_at_cluster();
  gpu::wait_for_cluster();
  if (unit >= Shared::kColumns) return;
  constexpr int kAtOnce = DecodeCombined::kAtOnce;
  DecodeCombined combined;
  for (int begin = 0; begin < keys.parts; begin += kAtOnce) {
    float values[kAtOnce], largest[kAtOnce], total[kAtOnce];
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      values[p] = shared.parts[begin + p][unit];
      largest[p] = shared.largest[begin + p];
      total[p] = shared.total[begin + p];
    }
    combined.add(values, largest, total,
                 keys.parts - begin < kAtOnce ? keys.parts - begin : kAtOnce);
  }
  a.work.attended[row * a.sizes.queries() + kv_head * kGroup * kHeadDim + rank * Shared::kColumns +
                  unit] = combined.result();
}

}  // namespace

bool decode_mixes(const DecodePlan& p, int rows) {
  constexpr int kMostRows = 16;
  const int64_t shared = sizeof(DecodeMixShared<8>);
  return rows <= kMostRows && gpu::can_form_clusters(p.device) &&
         gpu::most_shared_bytes(p.device) >= shared;
}

void decode_mix(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                const DecodeLayer& l) {
  visit_group(p.sizes.group(), [&]<int kGroup>() {
    constexpr int64_t kShared = sizeof(DecodeMixShared<kGroup>);
    stream.allow_shared(decode_mix_rows<kGroup>, kShared);
    stream.launch_early(decode_mix_rows<kGroup>,
                        {.blocks = kMixBlocks,
                         .blocks_y = p.sizes.kv_heads,
                         .blocks_z = rows,
                         .threads = gpu::kThreads,
                         .shared_bytes = kShared,
                         .cluster = kMixBlocks},
                        DecodeAttention{l, w, p.sizes, rows});
  });
}

}  // namespace tephra::zaya1
