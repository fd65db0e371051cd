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

// Blocks: eight channels of a head, groups of sixteen rows.
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
  gpu::let_next_kernel_start();
  gpu::wait_for_kernel_ahead();
  for (int begin = static_cast<int>(blockIdx.y) * gpu::kSkinnyTokens; begin < rows;
       begin += static_cast<int>(gridDim.y) * gpu::kSkinnyTokens) {
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
constexpr int kStages = 2;      // chunks in shared memory: one is read while the next comes
constexpr int kKeyLanes = kHeadDim / gpu::kWide, kKeyGroups = gpu::kThreads / kKeyLanes;
static_assert(kKeyLanes == 16 && kKeyGroups == 16);
constexpr int kKeyStride = kHeadDim + 8;  // pairs of eight keys fall on different banks
constexpr int kHeadRows = 8;              // query heads of a group, at most
constexpr int kAttentionWaves = gpu::kThreads / 32;
static_assert(kAttentionWaves * 8 == kChunkKeys, "a wave scores eight keys");
static_assert(kAttentionWaves * 16 == kHeadDim, "a wave weighs sixteen columns");

struct DecodeAttention {
  DecodeLayer layer;
  DecodeWork work;
  DecodeSizes sizes;
  int rows;
};

// Which keys a row sees, and how they are cut.
struct DecodeKeys {
  int position, first, first_chunk, chunks, chunks_each, parts;

  __device__ DecodeKeys(int at, int64_t window) : position(at) {
    first = window > 0 && at + 1 > window ? at + 1 - static_cast<int>(window) : 0;
    first_chunk = first / kChunkKeys;
    chunks = at / kChunkKeys - first_chunk + 1;
    int halvings = 0;
    while ((chunks - 1) >> halvings >= kDecodeParts) ++halvings;
    chunks_each = 1 << halvings;
    parts = ((chunks - 1) >> halvings) + 1;
  }
};

// The chunks of a block in the order in which it takes them: of its parts, one part after another.
struct DecodeWalk {
  int part, chunk, end;

  __device__ DecodeWalk(const DecodeKeys& keys, int first) { enter(keys, first); }
  __device__ void enter(const DecodeKeys& keys, int to) {
    part = to;
    chunk = to * keys.chunks_each;
    end = chunk + keys.chunks_each < keys.chunks ? chunk + keys.chunks_each : keys.chunks;
  }
  __device__ void next(const DecodeKeys& keys, int side_by_side) {
    if (++chunk >= end) enter(keys, part + side_by_side);
  }
  __device__ bool done(const DecodeKeys& keys) const { return part >= keys.parts; }
};

struct DecodeAttentionShared {
  alignas(16) bf16 keys[kStages][kChunkKeys][kKeyStride];
  alignas(16) bf16 values[kStages][kChunkKeys][kKeyStride];
  alignas(16) bf16 new_key[kHeadDim], new_value[kHeadDim];
  // Rows beyond the group are zeros.
  alignas(16) bf16 queries[kHeadRows][kKeyStride], weights[kHeadRows][kChunkKeys + 8];
  float scores[kHeadRows][kChunkKeys];
  float largest[kHeadRows], total[kHeadRows], keep[kHeadRows];
  bool last;
};

// Two neighbours of bf16.
__device__ uint32_t decode_pair(const bf16* from) {
  return *reinterpret_cast<const uint32_t*>(from);
}

// Mean, norm, temperature and rotation of the group's query heads and of its key head, the formulas
// of ops/cca_heads_gpu.cu: sixteen threads have a head. Queries go to shared memory; when `writes`
// the key does, too, and to its row of the cache.
template <int kGroup>
__device__ void decode_heads(const DecodeAttention& a, int64_t row, int kv_head, bool writes,
                             int64_t cache_row, DecodeAttentionShared& shared) {
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
    gpu::store(&shared.queries[head][at], v);
  } else if (head == kGroup && writes) {
    gpu::store(a.layer.keys + cache_row * a.sizes.values() + kv_head * kHeadDim + at, v);
    gpu::store(shared.new_key + at, v);
  }
}

// The shifted value goes to the cache; the state of the convolutions and of the shift goes on.
template <int kGroup>
__device__ void decode_remember(const DecodeAttention& a, int64_t row, int kv_head,
                                int64_t cache_row, DecodeAttentionShared& shared) {
  const int channels = a.sizes.channels(), width = a.sizes.values(), half = width / 2;
  const int64_t slot = a.work.slots[row];
  const bf16* z = a.work.latents + row * (channels + width);
  for (int i = static_cast<int>(threadIdx.x); i < kHeadDim; i += gpu::kThreads) {
    const int c = kv_head * kHeadDim + i;
    bf16 value = z[channels + c];
    if (c >= half) {
      bf16* delayed = a.layer.value_state + slot * half + c - half;
      const bf16 before = *delayed;
      *delayed = value;
      value = before;
    }
    a.layer.values[cache_row * width + c] = value;
    shared.new_value[i] = value;
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
  unsigned block_tokens;

  __device__ int64_t operator[](int key) const {
    const unsigned block = static_cast<unsigned>(key) / block_tokens;
    return int64_t{table[block]} * block_tokens +
           (static_cast<unsigned>(key) - block * block_tokens);
  }
};

// A chunk's keys and values set out for shared memory, zeros for those that are not seen. Not the
// newest: this kernel makes it.
__device__ void decode_fetch(const DecodeAttention& a, const DecodeKeys& keys,
                             const DecodeKeyRows& rows, int kv_head, int chunk, int stage,
                             DecodeAttentionShared& shared) {
  const int at = static_cast<int>(threadIdx.x) % kKeyLanes * gpu::kWide;
  const int first = (keys.first_chunk + chunk) * kChunkKeys;
  const bool together = rows.block_tokens % kChunkKeys == 0;  // in one block
  const int64_t first_row = together ? rows[first] : 0;
#pragma unroll
  for (int i = 0; i < kChunkKeys / kKeyGroups; ++i) {
    const int j = static_cast<int>(threadIdx.x) / kKeyLanes + i * kKeyGroups, key = first + j;
    bf16 *to_key = &shared.keys[stage][j][at], *to_value = &shared.values[stage][j][at];
    if (key >= keys.first && key < keys.position) {
      const int64_t row = together ? first_row + j : rows[key];
      const int64_t from = row * a.sizes.values() + kv_head * kHeadDim + at;
      gpu::copy_to_shared(to_key, a.layer.keys + from);
      gpu::copy_to_shared(to_value, a.layer.values + from);
    } else if (key != keys.position) {
      *reinterpret_cast<gpu::Bits128*>(to_key) = {};
      *reinterpret_cast<gpu::Bits128*>(to_value) = {};
    }
  }
}

// The newest key and value take their place among those of their chunk.
__device__ void decode_place_newest(int j, int stage, DecodeAttentionShared& shared) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kHeadDim) {
    shared.keys[stage][j][i] = shared.new_key[i];
    shared.values[stage][j][i] = shared.new_value[i];
  }
}

// A wave's part of the queries: what multiply_16x8x16 wants as a, of the upper eight rows.
struct DecodeQueries {
  static constexpr int kSteps = kHeadDim / 16;
  uint32_t at[kSteps][2];

  __device__ explicit DecodeQueries(const DecodeAttentionShared& shared) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bf16* row = &shared.queries[lane / 4][lane % 4 * 2];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      at[s][0] = decode_pair(row + 16 * s);
      at[s][1] = decode_pair(row + 16 * s + 8);
    }
  }
};

// scores = scaled q . k of a chunk, -inf where a key is not seen. A wave has eight keys.
__device__ void decode_scores(const DecodeKeys& keys, const DecodeQueries& queries, int group,
                              int chunk, int stage, DecodeAttentionShared& shared) {
  const int wave = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int row = lane / 4, pair = lane % 4 * 2;
  const bf16* own = &shared.keys[stage][wave * 8 + row][pair];
  float sums[4] = {};
#pragma unroll
  for (int s = 0; s < DecodeQueries::kSteps; ++s) {
    const uint32_t a[4] = {queries.at[s][0], 0, queries.at[s][1], 0};
    const uint32_t b[2] = {decode_pair(own + 16 * s), decode_pair(own + 16 * s + 8)};
    gpu::multiply_16x8x16(sums, a, b);
  }
  if (row >= group) return;
  const float scale = 1.0f / sqrtf(static_cast<float>(kHeadDim));
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int j = wave * 8 + pair + i, key = (keys.first_chunk + chunk) * kChunkKeys + j;
    const bool seen = key >= keys.first && key <= keys.position;
    shared.scores[row][j] = seen ? sums[i] * scale : -INFINITY;
  }
}

// weights = exp(score - largest so far); what was summed up before is to be kept by `keep`. A wave
// has a head.
__device__ void decode_softmax(int group, DecodeAttentionShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = static_cast<int>(threadIdx.x) / 32;
  if (g >= group) return;
  static_assert(kChunkKeys == 64 && kHeadRows <= kAttentionWaves);
  const float low = shared.scores[g][lane], high = shared.scores[g][lane + 32];
  float top = fmaxf(low, high);
  for (int mask = 16; mask > 0; mask /= 2) top = fmaxf(top, gpu::shuffle_xor(top, mask));
  const float before = shared.largest[g], now = fmaxf(before, top);
  const float p = expf(low - now), q = expf(high - now);  // a chunk has a key that is seen
  shared.weights[g][lane] = bf16(p);
  shared.weights[g][lane + 32] = bf16(q);
  const float sum = gpu::lanes_sum(p + q, 32);
  const float keep = before == -INFINITY ? 0.0f : expf(before - now);
  if (lane == 0) {
    shared.keep[g] = keep;
    shared.total[g] = shared.total[g] * keep + sum;
    shared.largest[g] = now;
  }
}

// A wave's sixteen columns of the weighed values: a thread has of head g = lane / 4 columns 2t and
// 2t + 1 of each eight.
struct DecodeWeighed {
  float at[2][4] = {};

  __device__ void add(int stage, const DecodeAttentionShared& shared) {
    const int wave = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const float keep = shared.keep[lane / 4];
    const bf16* weights = &shared.weights[lane / 4][lane % 4 * 2];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      at[n][0] *= keep;
      at[n][1] *= keep;
    }
#pragma unroll
    for (int s = 0; s < kChunkKeys / 16; ++s) {
      const uint32_t a[4] = {decode_pair(weights + 16 * s), 0, decode_pair(weights + 16 * s + 8),
                             0};
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        uint32_t b[2];
        gpu::load_terms_by_rows(b, &shared.values[stage][16 * s][wave * 16 + n * 8].bits,
                                kKeyStride);
        gpu::multiply_16x8x16(at[n], a, b);
      }
    }
  }
  // f(head, column, value) for what a thread has of `group` heads.
  template <class F>
  __device__ void each(int group, const F& f) const {
    const int wave = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    if (lane / 4 >= group) return;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) f(lane / 4, wave * 16 + n * 8 + lane % 4 * 2 + i, at[n][i]);
    }
  }
};

constexpr int kPartWidth = kHeadDim + 2;  // of a head: weighed values, largest score, total

// Puts a row's parts together, in order. They were written by other blocks of this kernel, so they
// are read past the nearest cache, several at once.
template <int kGroup>
__device__ void decode_combine(const float* parts, int count, bf16* out) {
  constexpr int kAtOnce = 16, kStep = kGroup * kPartWidth;
  for (int i = static_cast<int>(threadIdx.x); i < kGroup * kHeadDim; i += gpu::kThreads) {
    const float* own = parts + i / kHeadDim * kPartWidth;
    const int column = i % kHeadDim;
    float largest = -INFINITY, sum = 0, total = 0;
    for (int begin = 0; begin < count; begin += kAtOnce) {
      float value[kAtOnce], top[kAtOnce], part[kAtOnce];
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        const float* at = own + (begin + p < count ? begin + p : 0) * kStep;
        value[p] = gpu::load_fresh(at + column);
        top[p] = gpu::load_fresh(at + kHeadDim);
        part[p] = gpu::load_fresh(at + kHeadDim + 1);
      }
#pragma unroll
      for (int p = 0; p < kAtOnce; ++p) {
        if (begin + p >= count) break;
        const float now = fmaxf(largest, top[p]);
        const float before = expf(largest - now), keep = expf(top[p] - now);
        sum = fmaf(value[p], keep, sum * before);
        total = fmaf(part[p], keep, total * before);
        largest = now;
      }
    }
    out[i] = bf16(sum / total);
  }
}

// Blocks: some for the parts of a row's keys, KV heads, rows. Older keys and values are asked for
// before the kernel ahead is waited for.
template <int kGroup>
__global__ void __launch_bounds__(gpu::kThreads, 2) decode_attention(DecodeAttention a) {
  extern __shared__ gpu::Bits128 decode_shared[];
  auto& shared = *reinterpret_cast<DecodeAttentionShared*>(decode_shared);
  const int64_t row = blockIdx.z;
  const int kv_head = static_cast<int>(blockIdx.y), side_by_side = static_cast<int>(gridDim.x);
  const DecodeKeys keys(a.work.positions[row], a.layer.window);
  const int blocks = keys.parts < side_by_side ? keys.parts : side_by_side;
  if (static_cast<int>(blockIdx.x) >= blocks) return;
  const DecodeKeyRows rows{a.work.tables + int64_t{a.work.slots[row]} * a.sizes.table_width,
                           static_cast<unsigned>(a.sizes.block_tokens)};
  DecodeWalk walk(keys, static_cast<int>(blockIdx.x)), ahead = walk;
  const auto fetch_next = [&](int stage) {
    if (!ahead.done(keys)) {
      decode_fetch(a, keys, rows, kv_head, ahead.chunk, stage, shared);
      ahead.next(keys, side_by_side);
    }
    gpu::close_copies();
  };
  fetch_next(0);
  for (int i = static_cast<int>(threadIdx.x); i < kHeadRows * kKeyStride; i += gpu::kThreads) {
    (&shared.queries[0][0])[i] = bf16(0.0f);
    if (i < kHeadRows * (kChunkKeys + 8)) (&shared.weights[0][0])[i] = bf16(0.0f);
    if (i < kHeadRows) shared.keep[i] = 0;
  }
  __syncthreads();
  // The block with the newest key writes it.
  const bool writes = (keys.parts - 1) % side_by_side == static_cast<int>(blockIdx.x);
  const int64_t cache_row = rows[keys.position];
  const int64_t place = row * a.sizes.kv_heads + kv_head;
  float* parts = a.work.parts + place * kDecodeParts * kGroup * kPartWidth;
  bf16* out = a.work.attended + row * a.sizes.queries() + kv_head * kGroup * kHeadDim;
  gpu::let_next_kernel_start();
  gpu::wait_for_kernel_ahead();
  decode_heads<kGroup>(a, row, kv_head, writes, cache_row, shared);
  if (writes) decode_remember<kGroup>(a, row, kv_head, cache_row, shared);
  __syncthreads();
  const DecodeQueries queries(shared);
  int stage = 0;
  while (!walk.done(keys)) {
    const int part = walk.part;
    if (threadIdx.x < kGroup) {
      shared.largest[threadIdx.x] = -INFINITY;
      shared.total[threadIdx.x] = 0;
    }
    DecodeWeighed weighed;
    for (; walk.part == part; walk.next(keys, side_by_side), stage ^= 1) {
      gpu::wait_for_copies<0>();
      __syncthreads();  // also: the other stage has been read
      fetch_next(stage ^ 1);
      if (walk.chunk == keys.chunks - 1) {
        decode_place_newest(keys.position % kChunkKeys, stage, shared);
        __syncthreads();
      }
      decode_scores(keys, queries, kGroup, walk.chunk, stage, shared);
      __syncthreads();
      decode_softmax(kGroup, shared);
      __syncthreads();
      weighed.add(stage, shared);
    }
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
    __syncthreads();  // totals have been read
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
  const int64_t blocks = channels / gpu::kSkinnyRows;
  stream.launch_early(decode_convolutions,
                      {.blocks = blocks,
                       .blocks_y = decode_token_blocks(blocks, 8, rows),
                       .threads = gpu::kSkinnyThreads},
                      l, w, channels, channels + p.sizes.values(), rows);
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
  const auto launch = [&]<int kGroup>() {
    constexpr int64_t kShared = sizeof(DecodeAttentionShared);
    stream.allow_shared(decode_attention<kGroup>, kShared);
    gpu::Grid with_shared = grid;
    with_shared.shared_bytes = kShared;
    stream.launch_early(decode_attention<kGroup>, with_shared, a);
  };
  switch (p.sizes.group()) {
    case 1:
      return launch.operator()<1>();
    case 2:
      return launch.operator()<2>();
    case 4:
      return launch.operator()<4>();
    case 8:
      return launch.operator()<8>();
    default:
      TEPHRA_ASSERT(false, "groups of query heads are a power of two up to eight");
  }
}

}  // namespace tephra::zaya1
