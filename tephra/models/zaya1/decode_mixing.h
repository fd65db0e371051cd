// SPDX-License-Identifier: Apache-2.0
// What the kernels of a decode step's mixing over time are made of: the first convolution, a
// group's heads, and attention over chunks of keys. How a sequence's keys are cut into parts
// follows from its length alone, and parts are put together in order, so neighbours do not change a
// bit.
#pragma once

#include "tephra/models/zaya1/decode_gpu.h"

namespace tephra::zaya1 {

inline constexpr int kHeadDim = kDecodeHeadDim;
inline constexpr int kTapsWidth = 2 * kHeadDim;  // what an output of the second convolution sees
inline constexpr float kDecodeLengthEps = 1.1920929e-7f;

// --- convolutions ---

// The first convolution's weights of eight channels.
struct DecodeTapWeights {
  gpu::Packed<2 * gpu::kWide, bf16> taps;
  gpu::Packed<gpu::kWide, bf16> bias;

  __device__ static DecodeTapWeights load(const DecodeLayer& l, int channel) {
    return {gpu::load_packed<2 * gpu::kWide>(l.conv0 + 2 * channel),
            gpu::load_packed<gpu::kWide>(l.conv0_bias + channel)};
  }
};

// Eight channels of queries or keys at the two tokens before a row's and at its own.
struct DecodeTaps {
  static constexpr int W = gpu::kWide;
  gpu::Packed<W, bf16> oldest, older, newest;

  __device__ static DecodeTaps load(const DecodeLayer& l, const DecodeWork& w,
                                    const DecodeSizes& sizes, int64_t row, int64_t slot,
                                    int channel) {
    const int channels = sizes.channels();
    const bf16* state = l.conv_state + slot * 2 * channels + channel;
    const bf16* own = w.latents + row * (channels + sizes.values()) + channel;
    return {gpu::load_packed<W>(state), gpu::load_packed<W>(state + channels),
            gpu::load_packed<W>(own)};
  }
  // The first convolution at the token before and at this one, as the second reads them: in turn.
  __device__ void convolve(const DecodeTapWeights& weights, bf16* to) const {
    const auto& [taps, bias] = weights;
    gpu::store(to, gpu::Floats<2 * W>::of([&](int i) {
                 const int c = i / 2;
                 const float before = float(i % 2 == 0 ? oldest[c] : older[c]);
                 const float now = float(i % 2 == 0 ? older[c] : newest[c]);
                 return fmaf(float(taps[2 * c + 1]), now,
                             fmaf(float(taps[2 * c]), before, float(bias[c])));
               }));
  }
  // The state goes on by a token.
  __device__ void remember(const DecodeLayer& l, const DecodeSizes& sizes, int64_t slot,
                           int channel) const {
    const int channels = sizes.channels();
    bf16* state = l.conv_state + slot * 2 * channels + channel;
    gpu::store_packed(state, older);
    gpu::store_packed(state + channels, newest);
  }
};

// The first channel of head `head` of a KV head's group: its query heads, then its key.
__device__ inline int decode_head_channel(const DecodeSizes& sizes, int kv_head, int head) {
  const int group = sizes.group();
  return (head < group ? kv_head * group + head : sizes.query_heads + kv_head) * kHeadDim;
}

// --- attention ---

inline constexpr int kChunkKeys = 64;  // that are scored before they are weighed
// Chunks in shared memory: where it has room, one is read while the next comes.
inline constexpr int kStages = gpu::kSharedIsLarge ? 2 : 1;
inline constexpr int kKeyLanes = kHeadDim / gpu::kWide, kKeyGroups = gpu::kThreads / kKeyLanes;
static_assert(kKeyLanes == 16 && kKeyGroups == 16);
inline constexpr int kKeyStride = kHeadDim + 8;  // pairs of eight keys fall on different banks
inline constexpr int kHeadRows = 8;              // query heads of a group, at most
inline constexpr int kAttentionWaves = gpu::kThreads / 32;
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
__device__ inline uint32_t decode_pair(const bf16* from) {
  return *reinterpret_cast<const uint32_t*>(from);
}

// What a thread needs for its eight columns of a head beside the latents.
struct DecodeTurn {
  gpu::Floats<gpu::kWide> cosine, sine;
  Temperature kind;
  bf16 stored;

  __device__ DecodeTurn(const DecodeAttention& a, int64_t row, int kv_head) {
    const int half = a.sizes.rotary_dim / 2;
    const int at = static_cast<int>(threadIdx.x) % kKeyLanes * gpu::kWide;
    if (at < a.sizes.rotary_dim) {
      const float* turn = a.work.rotary +
                          (int64_t{a.layer.theta} * kDecodeRows + row) * a.sizes.rotary_dim +
                          at % half;
      cosine = gpu::load<gpu::kWide>(turn);
      sine = gpu::load<gpu::kWide>(turn + half);
    }
    kind = a.sizes.temperature;
    if (kind != Temperature::none) stored = a.layer.temperature[kv_head];
  }
  // Not before it is needed, so that nothing waits for it earlier.
  __device__ float temperature() const {
    if (kind == Temperature::none) return 1;
    return kind == Temperature::exp ? expf(float(stored)) : float(stored);
  }
};

// Where a group's latents lie: its query heads one after another, and its key.
struct DecodeGroupRows {
  const bf16 *queries, *key;

  __device__ const bf16* operator[](bool is_key) const { return is_key ? key : queries; }
};

// Mean, norm, temperature and rotation of the group's query heads and of its key head, the formulas
// of ops/cca_heads_gpu.cu: sixteen threads have a head. Queries go to shared memory; when `writes`
// the key does, too, and to its row of the cache.
template <int kGroup>
__device__ void decode_heads(const DecodeAttention& a, const DecodeGroupRows& latents,
                             const DecodeGroupRows& convolved, const DecodeTurn& turn, int kv_head,
                             bool writes, int64_t cache_row, DecodeAttentionShared& shared) {
  constexpr int W = gpu::kWide;
  const int head = static_cast<int>(threadIdx.x) / kKeyLanes;   // within the group, then the key
  if (static_cast<int>(threadIdx.x) / 32 * 2 > kGroup) return;  // a whole wave without a head
  const int at = static_cast<int>(threadIdx.x) % kKeyLanes * W;
  const bool is_key = head >= kGroup;
  const int column = is_key ? at : head * kHeadDim + at;
  const auto own = gpu::load<W>(latents[is_key] + column);
  gpu::Floats<W> others;
  if (is_key) {
    for (int g = 0; g < kGroup; ++g) {
      const auto q = gpu::load<W>(latents.queries + g * kHeadDim + at);
#pragma unroll
      for (int i = 0; i < W; ++i) others[i] += q[i];
    }
#pragma unroll
    for (int i = 0; i < W; ++i) others[i] /= static_cast<float>(kGroup);
  } else {
    others = gpu::load<W>(latents.key + at);
  }
  auto v = gpu::load<W>(convolved[is_key] + column);
  float dot = 0;
#pragma unroll
  for (int i = 0; i < W; ++i) {
    v[i] += (others[i] + own[i]) * 0.5f;
    dot += v[i] * v[i];
  }
  const float factor = is_key ? turn.temperature() : 1.0f;
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
#pragma unroll
    for (int i = 0; i < W; ++i) {
      v[i] = v[i] * turn.cosine[i] + partner[i] * (second ? turn.sine[i] : -turn.sine[i]);
    }
  }
  if (head < kGroup) {
    gpu::store(&shared.queries[head][at], v);
  } else if (head == kGroup && writes) {
    gpu::store(a.layer.keys + cache_row * a.sizes.values() + kv_head * kHeadDim + at, v);
    gpu::store(shared.new_key + at, v);
  }
}

// Eight columns of the shifted value: the later half of all is the token before's.
struct DecodeValue {
  static constexpr int W = gpu::kWide;
  gpu::Packed<W, bf16> now, before;
  int column;

  __device__ static DecodeValue load(const DecodeAttention& a, int64_t row, int64_t slot,
                                     int kv_head, int unit) {
    const int channels = a.sizes.channels(), width = a.sizes.values(), half = width / 2;
    DecodeValue v;
    v.column = kv_head * kHeadDim + unit * W;
    v.now = gpu::load_packed<W>(a.work.latents + row * (channels + width) + channels + v.column);
    v.before = v.now;
    if (v.column >= half) {
      v.before = gpu::load_packed<W>(a.layer.value_state + slot * half + v.column - half);
    }
    return v;
  }
  // Goes to the cache; the state of the shift goes on.
  __device__ void remember(const DecodeAttention& a, int64_t slot, int64_t cache_row,
                           DecodeAttentionShared& shared) const {
    const int width = a.sizes.values(), half = width / 2;
    gpu::store_packed(a.layer.values + cache_row * width + column, before);
    gpu::store_packed(shared.new_value + column % kHeadDim, before);
    if (column >= half) {
      gpu::store_packed(a.layer.value_state + slot * half + column - half, now);
    }
  }
};

// A row of the caches for each key. One of them may be known: it is not looked up again.
struct DecodeKeyRows {
  const int32_t* table;
  unsigned block_tokens;
  int known = -1;
  int64_t known_row = 0;

  __device__ DecodeKeyRows(const DecodeAttention& a, int64_t slot)
      : table(a.work.tables + slot * a.sizes.table_width),
        block_tokens(static_cast<unsigned>(a.sizes.block_tokens)) {}

  __device__ void look_up(int key) {
    if (key == known) return;
    known_row = (*this)[key];
    known = key;
  }
  __device__ int64_t operator[](int key) const {
    if (key == known) return known_row;
    const unsigned block = static_cast<unsigned>(key) / block_tokens;
    return int64_t{table[block]} * block_tokens +
           (static_cast<unsigned>(key) - block * block_tokens);
  }
};

// A chunk's keys and values set out for shared memory, zeros for those that are not seen. Not the
// newest: this kernel makes it.
__device__ inline void decode_fetch(const DecodeAttention& a, const DecodeKeys& keys,
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
__device__ inline void decode_place_newest(int j, int stage, DecodeAttentionShared& shared) {
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
__device__ inline void decode_scores(const DecodeKeys& keys, const DecodeQueries& queries,
                                     int group, int chunk, int stage,
                                     DecodeAttentionShared& shared) {
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
__device__ inline void decode_softmax(int group, DecodeAttentionShared& shared) {
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
  gpu::order_neighbours();  // all have read `largest`
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
  // f(head, column, value, the next column's) for what a thread has of `group` heads.
  template <class F>
  __device__ void each_pair(int group, const F& f) const {
    const int wave = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    if (lane / 4 >= group) return;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      f(lane / 4, wave * 16 + n * 8 + lane % 4 * 2, at[n][0], at[n][1]);
    }
  }
  // f(head, column, value), the same one by one.
  template <class F>
  __device__ void each(int group, const F& f) const {
    each_pair(group, [&](int g, int c, float even, float odd) {
      f(g, c, even);
      f(g, c + 1, odd);
    });
  }
};

// Attention of a row's group over some parts of its keys: those of number first, first +
// side_by_side and so on. Older keys and values are asked for before the newest are known.
template <int kGroup>
class DecodePartsWalk {
 public:
  // By a whole block; zeros what the group has no rows for. Nothing where there are no parts.
  __device__ DecodePartsWalk(const DecodeAttention& a, const DecodeKeys& keys,
                             const DecodeKeyRows& rows, int kv_head, int first, int side_by_side,
                             DecodeAttentionShared& shared)
      : a_(a),
        keys_(keys),
        rows_(rows),
        kv_head_(kv_head),
        side_by_side_(side_by_side),
        walk_(keys, first),
        ahead_(walk_),
        shared_(shared) {
    if (walk_.done(keys)) return;
    fetch_next(0);
    for (int i = static_cast<int>(threadIdx.x); i < kHeadRows * kKeyStride; i += gpu::kThreads) {
      (&shared.queries[0][0])[i] = bf16(0.0f);
      if (i < kHeadRows * (kChunkKeys + 8)) (&shared.weights[0][0])[i] = bf16(0.0f);
      if (i < kHeadRows) shared.keep[i] = 0;
    }
    gpu::sync_first<gpu::kThreads>();
  }

  // finish(part, weighed) for each part, when queries, newest key and newest value are in shared
  // memory and all threads know.
  template <class F>
  __device__ void run(const F& finish) {
    const DecodeQueries queries(shared_);
    int stage = 0;
    while (!walk_.done(keys_)) {
      const int part = walk_.part;
      if (threadIdx.x < kGroup) {
        shared_.largest[threadIdx.x] = -INFINITY;
        shared_.total[threadIdx.x] = 0;
      }
      DecodeWeighed weighed;
      for (; walk_.part == part; walk_.next(keys_, side_by_side_), stage = (stage + 1) % kStages) {
        gpu::wait_for_copies<0>();
        gpu::sync_first<gpu::kThreads>();  // also: the other stage has been read
        if constexpr (kStages > 1) fetch_next(stage ^ 1);
        if (walk_.chunk == keys_.chunks - 1) {
          decode_place_newest(keys_.position % kChunkKeys, stage, shared_);
          gpu::sync_first<gpu::kThreads>();
        }
        decode_scores(keys_, queries, kGroup, walk_.chunk, stage, shared_);
        gpu::sync_first<gpu::kThreads>();
        decode_softmax(kGroup, shared_);
        gpu::sync_first<gpu::kThreads>();
        weighed.add(stage, shared_);
        if constexpr (kStages == 1) {
          gpu::sync_first<gpu::kThreads>();  // it has been read
          fetch_next(stage);
        }
      }
      finish(part, weighed);
      gpu::sync_first<gpu::kThreads>();  // totals have been read
    }
  }

 private:
  __device__ void fetch_next(int stage) {
    if (!ahead_.done(keys_)) {
      decode_fetch(a_, keys_, rows_, kv_head_, ahead_.chunk, stage, shared_);
      ahead_.next(keys_, side_by_side_);
    }
    gpu::close_copies();
  }

  const DecodeAttention& a_;
  DecodeKeys keys_;
  DecodeKeyRows rows_;
  int kv_head_, side_by_side_;
  DecodeWalk walk_, ahead_;
  DecodeAttentionShared& shared_;
};

// Parts of a column put together in order, kAtOnce of them at a time. The 32 threads of a wave have
// columns of one head.
struct DecodeCombined {
  static constexpr int kAtOnce = 16;
  float largest = -INFINITY, sum = 0, total = 0;

  // `count` parts that follow, at most kAtOnce: lane p knows the largest score and the total of
  // part p, value(p) is what it says of this column.
  template <class F>
  __device__ void add(float top, float part, int count, const F& value) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float now = lane < count ? top : -INFINITY;
    for (int mask = kAtOnce / 2; mask > 0; mask /= 2) now = fmaxf(now, gpu::shuffle_xor(now, mask));
    now = fmaxf(largest, gpu::shuffle_from(now, 0));
    const float keep = expf(top - now), before = expf(largest - now);
    sum *= before;
    total *= before;
#pragma unroll
    for (int p = 0; p < kAtOnce; ++p) {
      const float k = gpu::shuffle_from(keep, p), of_part = gpu::shuffle_from(part, p);
      if (p < count) {
        sum = fmaf(value(p), k, sum);
        total = fmaf(of_part, k, total);
      }
    }
    largest = now;
  }
  __device__ bf16 result() const { return bf16(sum / total); }
};

}  // namespace tephra::zaya1
