// SPDX-License-Identifier: Apache-2.0
// A decode step's mixing over time for few rows and not too many keys, as one kernel: a cluster of
// blocks has a row's KV head with its query heads. The blocks share the second convolution and the
// keys, and pass each other what they find through shared memory. Sums are those of
// decode_mixing_gpu.cu, in its order.
#include "tephra/models/zaya1/decode_mixing.h"

namespace tephra::zaya1 {
namespace {

// kBlocks: of a cluster.
template <int kGroup, int kBlocks>
struct DecodeMixShared {
  static constexpr int kHeads = kGroup + 1;                     // the last is the key
  static constexpr int kChannels = kHeadDim / kBlocks;          // of each, that a block convolves
  static constexpr int kOutputs = kHeads * kChannels;           // of its convolution
  static constexpr int kColumns = kGroup * kHeadDim / kBlocks;  // that it puts together

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

// A block's outputs of the second convolution: some of each head.
template <int kGroup, int kBlocks>
class DecodeMixConvolution {
 public:
  using Shared = DecodeMixShared<kGroup, kBlocks>;

  __device__ DecodeMixConvolution(const DecodeAttention& a, int kv_head, int rank, Shared& shared)
      : rank_(rank), shared_(shared) {
    const auto channel = [&](int output) {
      return decode_head_channel(a.sizes, kv_head, output / Shared::kChannels) +
             rank * Shared::kChannels + output % Shared::kChannels;
    };
    weights_.fetch(a.layer.conv1,
                   [&](int tile) { return int64_t{channel(tile * gpu::kSkinnyRows)}; });
    if (threadIdx.x < Shared::kOutputs) {
      bias_ = a.layer.conv1_bias[channel(static_cast<int>(threadIdx.x))];
    }
  }

  // From shared.taps to `convolved` of every block of the cluster. The token is the first of the
  // sixteen that pass by in decode_convolutions.
  __device__ void run() const {
    if (threadIdx.x < Shared::kOutputs) shared_.bias[threadIdx.x] = float(bias_);
    const gpu::SkinnyLane lane;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      gpu::Bits128 token{};
      if (lane.row == 0) {
        token = *reinterpret_cast<const gpu::Bits128*>(
            &shared_.taps[tile / kTilesOfHead][lane.wave * gpu::kSkinnyStep + lane.column]);
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
    for (int i = static_cast<int>(threadIdx.x); i < kPairs * kBlocks; i += gpu::kThreads) {
      const int output = i % kPairs * 2;
      bf16* to = &shared_.convolved[output / Shared::kChannels]
                                   [rank_ * Shared::kChannels + output % Shared::kChannels];
      *reinterpret_cast<uint32_t*>(gpu::in_block_of_cluster(to, i / kPairs)) =
          gpu::bf16_pair(total(output), total(output + 1));
    }
  }

 private:
  static constexpr int kTilesOfHead = Shared::kChannels / gpu::kSkinnyRows;
  static constexpr int kTiles = Shared::kHeads * kTilesOfHead;
  static_assert(Shared::kOutputs <= gpu::kThreads, "a thread has a bias");

  __device__ float total(int output) const {
    float sum = shared_.sums[0][output];
    for (int w = 1; w < gpu::kSkinnyWaves; ++w) sum += shared_.sums[w][output];
    return sum + shared_.bias[output];
  }

  gpu::Bf16Matrix::Held<kTiles, 1> weights_;
  bf16 bias_;
  int rank_;
  Shared& shared_;
};

// Blocks: a cluster, KV heads, rows. Weights are asked for before the kernel ahead is waited for.
template <int kGroup, int kBlocks>
__global__ void __launch_bounds__(gpu::kThreads, 2) decode_mix_rows(DecodeAttention a) {
  using Shared = DecodeMixShared<kGroup, kBlocks>;
  gpu::let_next_kernel_start();
  gpu::arrive_at_cluster();
  auto& shared = *gpu::dynamic_shared<Shared>();
  const int rank = static_cast<int>(blockIdx.x), kv_head = static_cast<int>(blockIdx.y);
  const int64_t row = blockIdx.z;
  constexpr int kUnits = Shared::kHeads * kKeyLanes, kValueUnits = kKeyLanes;
  static_assert(kUnits + kValueUnits <= gpu::kThreads, "a thread has eight columns");
  const int unit = static_cast<int>(threadIdx.x), value_unit = unit - gpu::kThreads + kValueUnits;
  const int head = unit / kKeyLanes, at = unit % kKeyLanes * gpu::kWide;
  const int channel = decode_head_channel(a.sizes, kv_head, head) + at;
  const int64_t slot = a.work.slots[row];
  const DecodeKeys keys(a.work.positions[row], a.layer.window);
  DecodeTapWeights tap_weights{};
  if (unit < kUnits) tap_weights = DecodeTapWeights::load(a.layer, channel);
  const DecodeMixConvolution<kGroup, kBlocks> convolution(a, kv_head, rank, shared);
  const bool writes = (keys.parts - 1) % kBlocks == rank;  // has the newest key
  gpu::wait_for_kernel_ahead();

  DecodeTaps taps{};
  DecodeValue value{};
  if (unit < kUnits) taps = DecodeTaps::load(a.layer, a.work, a.sizes, row, slot, channel);
  if (writes && value_unit >= 0) value = DecodeValue::load(a, row, slot, kv_head, value_unit);
  const DecodeTurn turn(a, row, kv_head);
  // Keys come while the convolutions run: finding them takes longer than the kernel ahead leaves.
  const DecodeKeyRows rows(a, slot);
  const int64_t cache_row = rows[keys.position];
  DecodePartsWalk<kGroup> walk(a, keys, rows, kv_head, rank, kBlocks, shared.attention);
  if (unit < kUnits) {
    taps.convolve(tap_weights, &shared.taps[head][2 * at]);
    gpu::store_packed(&shared.latents[head][at], taps.newest);
  }
  __syncthreads();
  gpu::wait_for_cluster();  // all its blocks have begun
  convolution.run();
  gpu::arrive_at_cluster();
  if (writes && value_unit >= 0) value.remember(a, slot, cache_row, shared.attention);
  gpu::wait_for_cluster();
  // All blocks have read the state.
  if (unit < kUnits && unit % kBlocks == rank) {
    taps.remember(a.layer, a.sizes, slot, channel);
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
    if (unit < kBlocks) {
      const int g = unit * kGroup / kBlocks;
      *gpu::in_block_of_cluster(&shared.largest[part], unit) = shared.attention.largest[g];
      *gpu::in_block_of_cluster(&shared.total[part], unit) = shared.attention.total[g];
    }
  });
  gpu::arrive_at_cluster();
  gpu::wait_for_cluster();
  static_assert(Shared::kColumns <= gpu::kThreads && kHeadDim % Shared::kColumns == 0);
  if (unit / 32 * 32 >= Shared::kColumns) return;  // a whole wave without a column
  const int column = unit < Shared::kColumns ? unit : 0;
  DecodeCombined combined;
  for (int begin = 0; begin < keys.parts; begin += DecodeCombined::kAtOnce) {
    const int count =
        keys.parts - begin < DecodeCombined::kAtOnce ? keys.parts - begin : DecodeCombined::kAtOnce;
    const int own = begin + unit % DecodeCombined::kAtOnce;
    combined.add(shared.largest[own], shared.total[own], count,
                 [&](int p) { return shared.parts[begin + p][column]; });
  }
  if (unit < Shared::kColumns) {
    a.work.attended[row * a.sizes.queries() + kv_head * kGroup * kHeadDim +
                    rank * Shared::kColumns + unit] = combined.result();
  }
}

}  // namespace

// Larger than what every device with clusters has, but not than Hopper's.
constexpr int kMixBlocks = 16;

bool decode_mixes(const DecodePlan& p, int rows) {
  constexpr int kMostRows = 4;  // more fill the device with fewer blocks each
  return rows <= kMostRows && gpu::can_form_clusters(p.device) &&
         gpu::most_shared_bytes(p.device) >= int64_t{sizeof(DecodeMixShared<8, kMixBlocks>)};
}

void decode_mix(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                const DecodeLayer& l) {
  visit_power(p.sizes.group(), [&]<int kGroup>() {
    const auto kernel = decode_mix_rows<kGroup, kMixBlocks>;
    constexpr int64_t kShared = sizeof(DecodeMixShared<kGroup, kMixBlocks>);
    stream.allow_shared(kernel, kShared);
    stream.allow_large_clusters(kernel);
    stream.launch_early(kernel,
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
