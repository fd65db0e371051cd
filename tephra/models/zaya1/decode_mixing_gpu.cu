// SPDX-License-Identifier: Apache-2.0
// A decode step's mixing over time: the convolutions of queries and keys, and attention over the
// paged caches. How a sequence's keys are cut into parts follows from its length alone, and the
// parts are put together in order by the block that comes last, so neighbours do not change a bit.
#include "tephra/models/zaya1/decode_gpu.h"

namespace tephra::zaya1 {
namespace {

constexpr int kHeadDim = kDecodeHeadDim;
constexpr int kTapsWidth = 2 * kHeadDim;  // what an output of the second convolution sees
constexpr float kDecodeLengthEps = 1.1920929e-7f;

// --- convolutions ---

// Eight channels of the first convolution at the token before and at this one, as the second reads
// them: in turn.
__device__ void decode_first_convolution(const DecodeLayer& l, const DecodeWork& w, int channels,
                                         int latent_width, int64_t row, int channel, bf16* to) {
  constexpr int W = gpu::kWide;
  const bf16* state = l.conv_state + int64_t{w.slots[row]} * 2 * channels + channel;
  const auto oldest = gpu::load<W>(state), older = gpu::load<W>(state + channels);
  const auto newest = gpu::load<W>(w.latents + row * latent_width + channel);
  const auto taps = gpu::load<2 * W>(l.conv0 + 2 * channel);
  const auto bias = gpu::load<W>(l.conv0_bias + channel);
  gpu::store(to, gpu::Floats<2 * W>::of([&](int i) {
               const int c = i / 2;
               const float before = i % 2 == 0 ? oldest[c] : older[c];
               const float now = i % 2 == 0 ? older[c] : newest[c];
               return fmaf(taps[2 * c + 1], now, fmaf(taps[2 * c], before, bias[c]));
             }));
}

// A block has eight channels of a head, for all rows.
__global__ void __launch_bounds__(gpu::kSkinnyThreads)
    decode_convolutions(DecodeLayer l, DecodeWork w, int channels, int latent_width, int rows) {
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
  gpu::let_next_kernel_start();
  for (int begin = 0; begin < rows; begin += gpu::kSkinnyTokens) {
    const int count = rows - begin < gpu::kSkinnyTokens ? rows - begin : gpu::kSkinnyTokens;
    constexpr int kUnits = kHeadDim / gpu::kWide;
    for (int i = static_cast<int>(threadIdx.x); i < count * kUnits; i += gpu::kSkinnyThreads) {
      const int token = i / kUnits, channel = i % kUnits * gpu::kWide;
      decode_first_convolution(l, w, channels, latent_width, begin + token, head + channel,
                               taps + token * kStride + 2 * channel);
    }
    __syncthreads();
    gpu::multiply_tokens<1, 1>(
        weights, [&](int i) -> const bf16* { return i < count ? taps + i * kStride : nullptr; },
        sums);
    __syncthreads();
    if (own_token < count) {
      w.convolved[int64_t{begin + own_token} * channels + first + own] =
          bf16(sums.total(own_token, own) + bias);
    }
    __syncthreads();
  }
}

// --- attention ---

constexpr int kChunkKeys = 64;  // that are scored before they are weighed
constexpr int kKeyLanes = kHeadDim / gpu::kWide, kKeyGroups = gpu::kThreads / kKeyLanes;
static_assert(kKeyLanes == 16 && kKeyGroups == 16);

struct DecodeAttention {
  DecodeLayer layer;
  DecodeWork work;
  DecodeSizes sizes;
  int rows;
};

// Which keys a row sees, and how they are cut.
struct DecodeKeys {
  int64_t position, first, first_chunk, chunks, chunks_each;
  int parts;

  __device__ DecodeKeys(int64_t at, int64_t window) : position(at) {
    first = window > 0 && at + 1 > window ? at + 1 - window : 0;
    first_chunk = first / kChunkKeys;
    chunks = at / kChunkKeys - first_chunk + 1;
    chunks_each = 1;
    while ((chunks + chunks_each - 1) / chunks_each > kDecodeParts) chunks_each *= 2;
    parts = static_cast<int>((chunks + chunks_each - 1) / chunks_each);
  }
};

template <int kGroup>
struct DecodeAttentionShared {
  float queries[kGroup][kHeadDim];
  float scores[kGroup][kChunkKeys];
  float sums[gpu::kMostWaves][kGroup][kHeadDim];
  float largest[kGroup], total[kGroup], keep[kGroup];
  bool last;
};

// Mean, norm, temperature and rotation of the group's query heads and of its key head, the formulas
// of ops/cca_heads_gpu.cu: sixteen threads have a head. Queries go to shared memory, the key to its
// row of the cache when `writes`.
template <int kGroup>
__device__ void decode_heads(const DecodeAttention& a, int64_t row, int kv_head, bool writes,
                             int64_t cache_row, DecodeAttentionShared<kGroup>& shared) {
  constexpr int W = gpu::kWide;
  const int head = static_cast<int>(threadIdx.x) / kKeyLanes;   // within the group, then the key
  if (static_cast<int>(threadIdx.x) / 32 * 2 > kGroup) return;  // a whole wave without a head
  const int at = static_cast<int>(threadIdx.x) % kKeyLanes * W;
  const bool is_key = head >= kGroup;
  const int queries = a.sizes.queries();
  const bf16* z = a.work.latents + row * (a.sizes.channels() + a.sizes.values());
  const int key_column = queries + kv_head * kHeadDim;
  const int column = is_key ? key_column : (kv_head * kGroup + head) * kHeadDim;
  const auto own = gpu::load<W>(z + column + at);
  gpu::Floats<W> others;
  if (is_key) {
    for (int g = 0; g < kGroup; ++g) {
      const auto q = gpu::load<W>(z + (kv_head * kGroup + g) * kHeadDim + at);
#pragma unroll
      for (int i = 0; i < W; ++i) others[i] += q[i];
    }
#pragma unroll
    for (int i = 0; i < W; ++i) others[i] /= static_cast<float>(kGroup);
  } else {
    others = gpu::load<W>(z + key_column + at);
  }
  auto v = gpu::load<W>(a.work.convolved + row * a.sizes.channels() + column + at);
  float dot = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    v[i] += (others[i] + own[i]) * 0.5f;
    dot += v[i] * v[i];
  }
  float factor = 1;
  if (is_key && a.sizes.temperature != Temperature::none) {
    factor = float(a.layer.temperature[kv_head]);
    if (a.sizes.temperature == Temperature::exp) factor = expf(factor);
  }
  const float size = sqrtf(gpu::lanes_sum(dot, kKeyLanes));
  const float scale = sqrtf(static_cast<float>(kHeadDim)) / fmaxf(size, kDecodeLengthEps) * factor;
#pragma unroll
  for (int i = 0; i < W; ++i) v[i] *= scale;
  const int half = a.sizes.rotary_dim / 2;
  gpu::Floats<W> partner;
#pragma unroll
  for (int i = 0; i < W; ++i) partner[i] = gpu::shuffle_xor(v[i], half / W);
  if (at < a.sizes.rotary_dim) {
    const bool second = at >= half;
    const float* turn = a.work.rotary +
                        (int64_t{a.layer.theta} * kDecodeRows + row) * a.sizes.rotary_dim + at -
                        (second ? half : 0);
    const auto cosine = gpu::load<W>(turn), sine = gpu::load<W>(turn + half);
#pragma unroll
    for (int i = 0; i < W; ++i) {
      v[i] = v[i] * cosine[i] + partner[i] * (second ? sine[i] : -sine[i]);
    }
  }
  if (head < kGroup) {
#pragma unroll
    for (int i = 0; i < W; ++i) shared.queries[head][at + i] = float(bf16(v[i]));
  } else if (head == kGroup && writes) {
    gpu::store(a.layer.keys + cache_row * a.sizes.values() + kv_head * kHeadDim + at, v);
  }
}

// The shifted value goes to the cache; the state of the convolutions and of the shift goes on.
template <int kGroup>
__device__ void decode_remember(const DecodeAttention& a, int64_t row, int kv_head,
                                int64_t cache_row) {
  const int channels = a.sizes.channels(), width = a.sizes.values(), half = width / 2;
  const int64_t slot = a.work.slots[row];
  const bf16* z = a.work.latents + row * (channels + width);
  for (int i = static_cast<int>(threadIdx.x); i < kHeadDim; i += gpu::kThreads) {
    const int c = kv_head * kHeadDim + i;
    bf16* to = a.layer.values + cache_row * width + c;
    if (c < half) {
      *to = z[channels + c];
    } else {
      bf16* delayed = a.layer.value_state + slot * half + c - half;
      *to = *delayed;
      *delayed = z[channels + c];
    }
  }
  for (int i = static_cast<int>(threadIdx.x); i < (kGroup + 1) * kHeadDim; i += gpu::kThreads) {
    const int c = i < kGroup * kHeadDim ? kv_head * kGroup * kHeadDim + i
                                        : a.sizes.queries() + kv_head * kHeadDim + i % kHeadDim;
    bf16* state = a.layer.conv_state + slot * 2 * channels + c;
    state[0] = state[channels];
    state[channels] = z[c];
  }
}

// A row of the caches for each key.
struct DecodeKeyRows {
  const int32_t* table;
  int64_t block_tokens;

  __device__ int64_t operator[](int64_t key) const {
    return table[key / block_tokens] * block_tokens + key % block_tokens;
  }
};

// scores = scaled q . k of a chunk, -inf where a key is not seen. Sixteen threads have a key.
template <int kGroup>
__device__ void decode_scores(const DecodeAttention& a, const DecodeKeys& keys,
                              const DecodeKeyRows& rows, int kv_head, int64_t chunk,
                              DecodeAttentionShared<kGroup>& shared) {
  constexpr int W = gpu::kWide;
  const int at = static_cast<int>(threadIdx.x) % kKeyLanes * W;
  const float scale = 1.0f / sqrtf(static_cast<float>(kHeadDim));
  gpu::Floats<W> q[kGroup];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) {
#pragma unroll
    for (int i = 0; i < W; ++i) q[g][i] = shared.queries[g][at + i];
  }
#pragma unroll 4
  for (int j = static_cast<int>(threadIdx.x) / kKeyLanes; j < kChunkKeys; j += kKeyGroups) {
    const int64_t key = chunk * kChunkKeys + j;
    const bool seen = key >= keys.first && key <= keys.position;
    gpu::Floats<W> k;
    if (seen) {
      k = gpu::load<W>(a.layer.keys + rows[key] * a.sizes.values() + kv_head * kHeadDim + at);
    }
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      float dot = 0;
#pragma unroll
      for (int i = 0; i < W; ++i) dot = fmaf(q[g][i], k[i], dot);
      dot = gpu::lanes_sum(dot, kKeyLanes);
      if (at == 0) shared.scores[g][j] = seen ? dot * scale : -INFINITY;
    }
  }
}

// scores -> exp(score - largest so far); what was summed up before is to be kept by `keep`.
template <int kGroup>
__device__ void decode_softmax(DecodeAttentionShared<kGroup>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int g = static_cast<int>(threadIdx.x) / 32; g < kGroup; g += gpu::kThreads / 32) {
    float top = -INFINITY, sum = 0;
    for (int j = lane; j < kChunkKeys; j += 32) top = fmaxf(top, shared.scores[g][j]);
    for (int mask = 16; mask > 0; mask /= 2) top = fmaxf(top, gpu::shuffle_xor(top, mask));
    const float before = shared.largest[g], now = fmaxf(before, top);
    for (int j = lane; j < kChunkKeys; j += 32) {
      const float p = expf(shared.scores[g][j] - now);  // a chunk has a key that is seen
      shared.scores[g][j] = p;
      sum += p;
    }
    sum = gpu::lanes_sum(sum, 32);
    const float keep = before == -INFINITY ? 0.0f : expf(before - now);
    if (lane == 0) {
      shared.keep[g] = keep;
      shared.total[g] = shared.total[g] * keep + sum;
      shared.largest[g] = now;
    }
  }
}

// A thread's eight columns of the weighed values, over a sixteenth of the keys.
template <int kGroup>
struct DecodeWeighed {
  gpu::Floats<gpu::kWide> at[kGroup];

  __device__ void add(const DecodeAttention& a, const DecodeKeys& keys, const DecodeKeyRows& rows,
                      int kv_head, int64_t chunk, const DecodeAttentionShared<kGroup>& shared) {
    constexpr int W = gpu::kWide;
    const int column = kv_head * kHeadDim + static_cast<int>(threadIdx.x) % kKeyLanes * W;
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
#pragma unroll
      for (int i = 0; i < W; ++i) at[g][i] *= shared.keep[g];
    }
#pragma unroll 4
    for (int j = static_cast<int>(threadIdx.x) / kKeyLanes; j < kChunkKeys; j += kKeyGroups) {
      const int64_t key = chunk * kChunkKeys + j;
      if (key < keys.first || key > keys.position) continue;
      const auto v = gpu::load<W>(a.layer.values + rows[key] * a.sizes.values() + column);
#pragma unroll
      for (int g = 0; g < kGroup; ++g) {
        const float p = shared.scores[g][j];
#pragma unroll
        for (int i = 0; i < W; ++i) at[g][i] = fmaf(p, v[i], at[g][i]);
      }
    }
  }

  // Over all keys, into shared.sums[0].
  __device__ void finish(DecodeAttentionShared<kGroup>& shared) {
    constexpr int W = gpu::kWide, kPairs = gpu::kThreads / 32;
    const int wave = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
#pragma unroll
      for (int i = 0; i < W; ++i) {
        const float pair = at[g][i] + gpu::shuffle_xor(at[g][i], kKeyLanes);
        if (lane < kKeyLanes) shared.sums[wave][g][lane * W + i] = pair;
      }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kGroup * kHeadDim; i += gpu::kThreads) {
      float sum = shared.sums[0][i / kHeadDim][i % kHeadDim];
      for (int p = 1; p < kPairs; ++p) sum += shared.sums[p][i / kHeadDim][i % kHeadDim];
      shared.sums[0][i / kHeadDim][i % kHeadDim] = sum;
    }
    __syncthreads();
  }
};

constexpr int kPartWidth = kHeadDim + 2;  // of a head: weighed values, largest score, total

// Puts a row's parts together, in order. They were written by other blocks of this kernel, so they
// are read past the nearest cache.
template <int kGroup>
__device__ void decode_combine(const float* parts, int count, bf16* out) {
  for (int i = static_cast<int>(threadIdx.x); i < kGroup * kHeadDim; i += gpu::kThreads) {
    const float* own = parts + i / kHeadDim * kPartWidth;
    const int column = i % kHeadDim, step = kGroup * kPartWidth;
    float largest = -INFINITY, sum = 0, total = 0;
#pragma unroll 8
    for (int p = 0; p < count; ++p) {
      largest = fmaxf(largest, gpu::load_fresh(own + p * step + kHeadDim));
    }
#pragma unroll 8
    for (int p = 0; p < count; ++p) {
      const float keep = expf(gpu::load_fresh(own + p * step + kHeadDim) - largest);
      sum = fmaf(gpu::load_fresh(own + p * step + column), keep, sum);
      total = fmaf(gpu::load_fresh(own + p * step + kHeadDim + 1), keep, total);
    }
    out[i] = bf16(sum / total);
  }
}

// Blocks: some for the parts of a row's keys, KV heads, rows.
template <int kGroup>
__global__ void __launch_bounds__(gpu::kThreads) decode_attention(DecodeAttention a) {
  __shared__ DecodeAttentionShared<kGroup> shared;
  gpu::wait_for_kernel_ahead();
  gpu::let_next_kernel_start();
  const int64_t row = blockIdx.z;
  const int kv_head = static_cast<int>(blockIdx.y), side_by_side = static_cast<int>(gridDim.x);
  const DecodeKeys keys(a.work.positions[row], a.layer.window);
  const int blocks = keys.parts < side_by_side ? keys.parts : side_by_side;
  if (static_cast<int>(blockIdx.x) >= blocks) return;
  const DecodeKeyRows rows{a.work.tables + int64_t{a.work.slots[row]} * a.sizes.table_width,
                           a.sizes.block_tokens};
  // The block with the newest key writes it.
  const bool writes = (keys.parts - 1) % side_by_side == static_cast<int>(blockIdx.x);
  const int64_t cache_row = rows[keys.position];
  decode_heads<kGroup>(a, row, kv_head, writes, cache_row, shared);
  if (writes) decode_remember<kGroup>(a, row, kv_head, cache_row);
  const int64_t place = row * a.sizes.kv_heads + kv_head;
  float* parts = a.work.parts + place * kDecodeParts * kGroup * kPartWidth;
  bf16* out = a.work.attended + row * a.sizes.queries() + kv_head * kGroup * kHeadDim;
  for (int part = static_cast<int>(blockIdx.x); part < keys.parts; part += side_by_side) {
    __syncthreads();
    if (threadIdx.x < kGroup) {
      shared.largest[threadIdx.x] = -INFINITY;
      shared.total[threadIdx.x] = 0;
    }
    DecodeWeighed<kGroup> weighed;
    const int64_t begin = part * keys.chunks_each;
    const int64_t end =
        begin + keys.chunks_each < keys.chunks ? begin + keys.chunks_each : keys.chunks;
    for (int64_t c = begin; c < end; ++c) {
      __syncthreads();
      decode_scores<kGroup>(a, keys, rows, kv_head, keys.first_chunk + c, shared);
      __syncthreads();
      decode_softmax<kGroup>(shared);
      __syncthreads();
      weighed.add(a, keys, rows, kv_head, keys.first_chunk + c, shared);
    }
    weighed.finish(shared);
    for (int i = static_cast<int>(threadIdx.x); i < kGroup * kHeadDim; i += gpu::kThreads) {
      const int g = i / kHeadDim, c = i % kHeadDim;
      const float sum = shared.sums[0][g][c];
      if (keys.parts == 1) {
        out[i] = bf16(sum / shared.total[g]);
        continue;
      }
      float* to = parts + (part * kGroup + g) * kPartWidth;
      to[c] = sum;
      if (c == 0) to[kHeadDim] = shared.largest[g];
      if (c == 1) to[kHeadDim + 1] = shared.total[g];
    }
  }
  if (keys.parts == 1) return;
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
  const int channels = p.sizes.channels();
  stream.launch_early(decode_convolutions,
                      {.blocks = channels / gpu::kSkinnyRows, .threads = gpu::kSkinnyThreads}, l, w,
                      channels, channels + p.sizes.values(), rows);
}

void decode_attend(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                   const DecodeLayer& l) {
  constexpr int64_t kBlocks = 264;  // two for each multiprocessor of a large device
  const int64_t places = int64_t{rows} * p.sizes.kv_heads;
  const gpu::Grid grid{.blocks = std::clamp<int64_t>(kBlocks / places, 1, kDecodeParts),
                       .blocks_y = p.sizes.kv_heads,
                       .blocks_z = rows,
                       .threads = gpu::kThreads};
  const DecodeAttention a{l, w, p.sizes, rows};
  switch (p.sizes.group()) {
    case 1:
      return stream.launch_early(decode_attention<1>, grid, a);
    case 2:
      return stream.launch_early(decode_attention<2>, grid, a);
    case 4:
      return stream.launch_early(decode_attention<4>, grid, a);
    case 8:
      return stream.launch_early(decode_attention<8>, grid, a);
    default:
      TEPHRA_ASSERT(false, "groups of query heads are a power of two up to eight");
  }
}

}  // namespace tephra::zaya1
