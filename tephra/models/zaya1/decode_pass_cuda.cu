// SPDX-License-Identifier: Apache-2.0
// One token through all layers on Hopper, as one kernel whose blocks stay. At one row a step is a
// chain of small products, and what it costs is the way from one to the next. Here
//
// - a block has the same rows of every layer's matrices, and they are in its shared memory before
//   what they are multiplied with is known: a thread of its own brings them
//   (decode_pass_copies_cuda.h);
// - the expert is guessed before attention has said its part, by the router itself, and has come
//   and been multiplied when the router chooses; only a wrong guess has to wait for its bytes;
// - what a block finds it posts as letters (decode_letters_cuda.h), which others wait for word by
//   word.
//
// A letter is not written again before all have read it: between two writings of any of them lies
// the whole stream, to which every block adds (docs/decisions/0087). Sums are those of the other
// kernels, in their order.
#include "tephra/device/gpu/hopper_maps.h"
#include "tephra/models/zaya1/decode_experts_gpu.h"
#include "tephra/models/zaya1/decode_pass_copies_cuda.h"
#include "tephra/models/zaya1/decode_pass_gpu.h"
#include "tephra/models/zaya1/decode_pass_router_cuda.h"

namespace tephra::zaya1 {
namespace {

namespace hopper = gpu::hopper;

// The merge of one column, read ahead.
struct PassMerge {
  bf16 hidden_scale, hidden_bias, residual_scale, residual_bias;

  PassMerge() = default;
  __device__ PassMerge(const DecodeMerge& m, int c)
      : hidden_scale(m.hidden_scale[c]),
        hidden_bias(m.hidden_bias[c]),
        residual_scale(m.residual_scale[c]),
        residual_bias(m.residual_bias[c]) {}
  __device__ float operator()(bf16 x, float before) const {
    return decode_merged(x, before, float(hidden_scale), float(hidden_bias), float(residual_scale),
                         float(residual_bias));
  }
};

// Eight numbers of bf16. What is read ahead stays as it came: taken apart, it would be waited for
// where it is asked for.
__device__ inline gpu::Bits128 eight_at(const bf16* from) {
  return *reinterpret_cast<const gpu::Bits128*>(from);
}
template <class Eight>
__device__ gpu::Packed<gpu::kWide, bf16> eight_of(const Eight& bits) {
  gpu::Packed<gpu::kWide, bf16> v;
  *reinterpret_cast<gpu::Bits128*>(&v) = {bits[0], bits[1], bits[2], bits[3]};
  return v;
}

// What a block needs of a layer's vectors and of the second convolution: asked for while the layer
// before waits for letters. Only the first wave has what it alone needs.
struct PassVectors {
  PassMerge after_attention, after_mlp;
  gpu::Bits128 first_norm, mlp_norm, convolution[2];
  bf16 convolution_bias, narrow_bias, narrow_scale;
  gpu::Bits128 taps[2], tap_bias, oldest, older;  // of the first convolution

  __device__ void convolve(const gpu::Packed<gpu::kWide, bf16>& newest, bf16* to) const {
    DecodeTapWeights weights;
    reinterpret_cast<gpu::Bits128*>(&weights.taps)[0] = taps[0];
    reinterpret_cast<gpu::Bits128*>(&weights.taps)[1] = taps[1];
    weights.bias = eight_of(tap_bias.at);
    DecodeTaps{eight_of(oldest.at), eight_of(older.at), newest}.convolve(weights, to);
  }
};

// A block's part of attention over one KV head's keys, and what it needs for it: asked for as the
// layer begins, before the stream is waited for.
struct PassAttention {
  static constexpr int W = gpu::kWide, kUnits = (kPassGroup + 1) * kKeyLanes;
  static constexpr int kHalf = kPassValues / 2;
  int kv_head = static_cast<int>(blockIdx.x) % kPassKvHeads;
  int part = static_cast<int>(blockIdx.x) / kPassKvHeads;
  DecodeKeys keys;
  DecodePartsWalk<kPassGroup> walk;
  DecodeTurn turn;
  gpu::Bits128 older, value_before;

  // `rows` keeps the row of the first key, the same in most layers.
  __device__ PassAttention(const DecodeAttention& a, int64_t slot, int position,
                           DecodeKeyRows& rows, DecodeAttentionShared& shared)
      : keys(position, a.layer.window),
        walk(a, keys, first_of(rows), kv_head, part, kDecodeParts, shared),
        turn(a, 0, kv_head) {
    if (!writes()) return;
    if (unit() < kUnits) {
      older = eight_at(a.layer.conv_state + (slot * 2 + 1) * kPassChannels + channel(a.sizes));
    } else if (value_unit() >= 0 && value_column() >= kHalf) {
      value_before = eight_at(a.layer.value_state + slot * kHalf + value_column() - kHalf);
    }
  }

  __device__ const DecodeKeyRows& first_of(DecodeKeyRows& rows) const {
    if (takes()) rows.look_up((keys.first_chunk + part * keys.chunks_each) * kChunkKeys);
    return rows;
  }
  __device__ bool takes() const { return part < keys.parts; }
  __device__ bool writes() const { return part == keys.parts - 1; }  // has the newest key
  // Sixteen threads have a head of the group, or its key; the last sixteen the value.
  __device__ static int unit() { return static_cast<int>(threadIdx.x); }
  __device__ static int head() { return unit() / kKeyLanes; }
  __device__ static int at() { return unit() % kKeyLanes * W; }
  __device__ int channel(const DecodeSizes& sizes) const {
    return decode_head_channel(sizes, kv_head, head()) + at();
  }
  __device__ static int value_unit() { return unit() - kPassThreads + kKeyLanes; }
  __device__ int value_column() const { return kv_head * kHeadDim + value_unit() * W; }
};

template <class Stored>
class PassBlock {
 public:
  using Shared = PassShared<Stored>;
  static constexpr int W = gpu::kWide;

  __device__ PassBlock(const PassPlan& p, Shared& shared)
      : p_(p),
        s_(shared),
        block_(static_cast<int>(blockIdx.x)),
        other_(block_ - kProjectBlocks),
        thread_(static_cast<int>(threadIdx.x)),
        rooms_(shared, projects()),
        time_(p.letters->time) {}

  // Before a barrier of the whole block.
  __device__ void begin() {
    if (thread_ == 0) {
      for (auto& matrix : s_.arrived) {
        for (uint64_t& piece : matrix) hopper::init_barrier(&piece, 1);
      }
      for (uint64_t& read : s_.read) hopper::init_barrier(&read, kPassThreads);
      hopper::init_barrier(&s_.told, 1);
      hopper::publish_barriers();
      for (DecodeAttention& a : s_.at) {
        a.work = p_.work;
        a.sizes = p_.sizes;
        a.rows = 1;
      }
    }
    keep_layer(0, layer_word(0));
  }

  __device__ void run() {
    const int64_t slot = p_.work.slots[0];
    const int position = p_.work.positions[0];
    DecodeKeyRows rows(s_.at[0], slot);
    cache_row_ = rows[position];
    if (thread_ < kPanelRows) stream_ = p_.work.stream[column()];
    PassVectors vectors = ahead(s_.at[0].layer, slot);
    for (int i = 0; i < p_.count; ++i) {
      const DecodeAttention& a = s_.at[i % 2];
      layer_ = i;
      ++time_;
      PassAttention attention(a, slot, position, rows, s_.attention);
      const uint64_t next = layer_word(i + 1);
      const auto m = i == 0 ? gpu::load<W>(p_.work.stream + thread_ * W)
                            : row(p_.letters->after_mlp, time_ - 1);
      project(a.layer, vectors, m);
      convolve(vectors);
      keep_layer(i + 1, next);  // all have left the layer before
      mix(a, slot, attention);
      give_back(vectors);
      experts(a.layer, vectors, slot);
    }
    if (thread_ < kPanelRows) p_.work.stream[column()] = stream_;
  }

 private:
  // By all threads, and after letters: others wait for these.
  __device__ void tell(PassRead what) { hopper::arrive(&s_.read[what]); }
  template <class Panel>
  __device__ void wait_for(const Panel& panel, PassMatrix matrix, uint32_t turn) {
    panel.await([&](int piece) { hopper::wait_barrier(&s_.arrived[matrix][piece], turn % 2); });
  }

  // The tiles of eight channels that a block convolves: blocks that do not project have two.
  __device__ int tiles() const { return projects() ? 1 : 2; }
  __device__ int channel(int tile) const {
    return (tile == 0 ? block_ : kPassBlocks + other_) * gpu::kSkinnyRows;
  }
  // The channels whose taps a thread makes, and the one that it posts.
  __device__ int tap_channel() const {
    return channel(thread_ / kKeyLanes) / kHeadDim * kHeadDim + thread_ % kKeyLanes * W;
  }
  __device__ int convolved_channel() const {
    return channel(thread_ / gpu::kSkinnyRows % tiles()) + thread_ % gpu::kSkinnyRows;
  }

  __device__ PassVectors ahead(const DecodeLayer& l, int64_t slot) const {
    PassVectors v;
    v.first_norm = eight_at((projects() ? l.input_norm : l.mlp_norm) + thread_ * W);
    v.mlp_norm = eight_at(l.mlp_norm + thread_ * W);
    const gpu::SkinnyLane lane;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i < tiles()) {
        v.convolution[i] = gpu::load_once(l.conv1 + (channel(i) + lane.row) * kTapsWidth +
                                          lane.wave * gpu::kSkinnyStep + lane.column);
      }
    }
    if (thread_ >= 32) return v;
    v.after_attention = PassMerge(l.after_attention, column());
    v.after_mlp = PassMerge(l.after_mlp, column());
    v.convolution_bias = l.conv1_bias[convolved_channel()];
    if (thread_ < tiles() * kKeyLanes) {
      const bf16* state = l.conv_state + slot * 2 * kPassChannels + tap_channel();
      v.taps[0] = eight_at(l.conv0 + 2 * tap_channel());
      v.taps[1] = eight_at(l.conv0 + 2 * tap_channel() + W);
      v.tap_bias = eight_at(l.conv0_bias + tap_channel());
      v.oldest = eight_at(state);
      v.older = eight_at(state + kPassChannels);
    }
    if (!projects()) {
      const int row = other_ * gpu::kSkinnyRows + thread_ % gpu::kSkinnyRows;
      v.narrow_bias = l.router_down_bias[row];
      if (l.router_scale) v.narrow_scale = l.router_scale[row];
    }
    return v;
  }

  // Waits for one of many letters before all threads ask for theirs: at first for another one in
  // each block, since a line of memory that all ask for again and again is slow to change.
  __device__ void await(const Letter* from, int count, uint32_t time) const {
    if (thread_ < 32) Letters<2, true>(from + block_ * (count / kPassBlocks), time);
    pass_sync();
  }

  __device__ int column() const { return block_ * kPanelRows + thread_ % kPanelRows; }
  __device__ bool projects() const { return other_ < 0; }

  // A thread's part of a layer's pointers; when kept, they are there after the next barrier.
  __device__ bool has_word(int i) const {
    static_assert(sizeof(DecodeLayer) % 8 == 0 && sizeof(DecodeLayer) / 8 <= kPassThreads);
    return i < p_.count && thread_ < static_cast<int>(sizeof(DecodeLayer) / 8);
  }
  __device__ uint64_t layer_word(int i) const {
    return has_word(i) ? reinterpret_cast<const uint64_t*>(p_.layers + i)[thread_] : 0;
  }
  __device__ void keep_layer(int i, uint64_t word) {
    if (has_word(i)) reinterpret_cast<uint64_t*>(&s_.at[i % 2].layer)[thread_] = word;
  }

  // normed = the norm of the row of which every thread has eight columns, as DecodeNormer's. A
  // wave has the columns that it multiplies, here and wherever what it reads comes by letters.
  __device__ void norm(const gpu::Floats<W>& m, const gpu::Bits128& weight_bits) {
    const auto weight = eight_of(weight_bits.at);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < W; ++k) sum += m[k] * m[k];
    sum = gpu::lanes_sum(sum, 32);
    if (thread_ % 32 == 0) s_.squares[thread_ / 32] = sum;
    pass_sync();
    sum = s_.squares[0];
#pragma unroll
    for (int w = 1; w < gpu::kSkinnyWaves; ++w) sum += s_.squares[w];
    const float s = 1.0f / sqrtf(sum / static_cast<float>(kPassWidth) + p_.sizes.eps);
    gpu::store(s_.normed + thread_ * W,
               gpu::Floats<W>::of([&](int k) { return m[k] * s * float(weight[k]); }));
    __syncwarp();
  }

  // A row of the stream, of which every thread gets eight columns. A wave reads its 256 side by
  // side.
  __device__ gpu::Floats<W> row(const Letter* stream, uint32_t time) {
    await(stream, kPassWidth, time);
    const int lane = thread_ % 32, first = thread_ / 32 * (32 * W) + 2 * lane;
    const Letters<W, true> letters(stream + first, time, 64);
#pragma unroll
    for (int k = 0; k < W; k += 2) {
      *reinterpret_cast<float2*>(s_.row + first + k * 32) = {letters.value(k),
                                                             letters.value(k + 1)};
    }
    __syncwarp();
    return gpu::load<W>(s_.row + thread_ * W);
  }

  __device__ void project(const DecodeLayer& l, const PassVectors& vectors,
                          const gpu::Floats<W>& m) {
    norm(m, vectors.first_norm);
    const PassToken<kWidthSteps> token(s_.normed);
    if (!projects()) {  // as if attention had nothing to say
      wait_for(rooms_.narrow, kFirst, layer_);
      narrow(l, vectors, token, kGuess);
      return;
    }
    wait_for(rooms_.first, kFirst, layer_);
    multiply_token<kPanelTiles>(rooms_.first, token, s_.sums);
    pass_sync();
    if (thread_ < 32) {
      post_pairs(p_.letters->latents + block_ * kPanelRows / 2,
                 total(s_.sums, thread_ % kPanelRows), kPanelRows, time_);
    }
    tell(kFirstRead);
  }

  __device__ void mix(const DecodeAttention& a, int64_t slot, PassAttention& attention) {
    if (attention.takes()) attend(a, slot, attention);
    hopper::publish_stores();  // where keys were, the copy engine writes
    tell(kKeysRead);
    if (!projects() && thread_ < 32) combine(attention.keys);
  }

  // The first half wave makes the taps of a head, the second those of the other one.
  __device__ void convolve(const PassVectors& vectors) {
    const gpu::SkinnyLane lane;
    if (thread_ < tiles() * kKeyLanes) {
      vectors.convolve(latents(tap_channel()),
                       &s_.taps[thread_ / kKeyLanes][thread_ % kKeyLanes * 2 * W]);
    }
    __syncwarp();
    pass_sync();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      if (i >= tiles()) continue;
      gpu::Bits128 token{};
      if (lane.row == 0) {
        token = *reinterpret_cast<const gpu::Bits128*>(
            &s_.taps[i][lane.wave * gpu::kSkinnyStep + lane.column]);
      }
      float sums[4] = {};
      gpu::multiply_skinny(sums, token, gpu::Bits128{}, vectors.convolution[i]);
      if (lane.row == 0) {
        float* to = &s_.sums[lane.wave][kUpSumsAt + i * gpu::kSkinnyRows + lane.column / 4];
        to[0] = sums[0];
        to[1] = sums[1];
      }
    }
    pass_sync();
    if (thread_ < 32) {
      const int count = tiles() * gpu::kSkinnyRows;
      const float value =
          total(s_.sums, kUpSumsAt + thread_ % count) + float(vectors.convolution_bias);
      const float next = gpu::shuffle_xor(value, 1);
      if (thread_ < count && thread_ % 2 == 0) {
        post(p_.letters->convolved + convolved_channel() / 2, gpu::bf16_pair(value, next), time_);
      }
    }
  }

  __device__ gpu::Packed<W, bf16> latents(int from) const {
    return eight_of(Letters<W / 2>(p_.letters->latents + from / 2, time_).bits);
  }

  __device__ void attend(const DecodeAttention& a, int64_t slot, PassAttention& attention) {
    const int head = attention.head(), at = attention.at(), kv_head = attention.kv_head;
    const int channel = attention.channel(p_.sizes);
    const bool writes = attention.writes();
    DecodeTaps taps{.older = eight_of(attention.older.at)};
    if (thread_ < PassAttention::kUnits) {
      const Letter *own = p_.letters->latents + channel / 2,
                   *convolved = p_.letters->convolved + channel / 2;
      const Letters<W> letters([&](int i) { return (i < 2 ? own : convolved) + i % 2 * 2; }, time_);
      taps.newest = eight_of(letters.bits);
      gpu::store_packed(&s_.latents[head][at], taps.newest);
      gpu::store_packed(&s_.convolved[head][at], eight_of(letters.bits + W / 2));
    } else if (writes && attention.value_unit() >= 0) {
      DecodeValue value;
      value.column = attention.value_column();
      value.now = latents(kPassChannels + value.column);
      value.before =
          value.column >= PassAttention::kHalf ? eight_of(attention.value_before.at) : value.now;
      value.remember(a, slot, cache_row_, s_.attention);
    }
    __syncwarp();
    pass_sync();
    // All blocks have read the group's state: they have convolved.
    if (writes && thread_ < PassAttention::kUnits) {
      taps.remember(a.layer, p_.sizes, slot, channel);
    }
    decode_heads<kPassGroup>(a, {s_.latents[0], s_.latents[kPassGroup]},
                             {s_.convolved[0], s_.convolved[kPassGroup]}, attention.turn, kv_head,
                             writes, cache_row_, s_.attention);
    pass_sync();
    Letter* parts = p_.letters->parts[kv_head][attention.part];
    attention.walk.run([&](int, const DecodeWeighed& weighed) {
      weighed.each_pair(kPassGroup, [&](int g, int c, float even, float odd) {
        post_two(parts + g * kHeadDim + c, __float_as_uint(even), __float_as_uint(odd), time_);
      });
      if (thread_ < kPassGroup) {
        post_two(parts + kPassGroup * kHeadDim + 2 * thread_,
                 __float_as_uint(s_.attention.largest[thread_]),
                 __float_as_uint(s_.attention.total[thread_]), time_);
      }
    });
  }

  // The parts of 32 columns of a head, by a wave.
  __device__ void combine(const DecodeKeys& keys) {
    constexpr int kAtOnce = DecodeCombined::kAtOnce, kEach = kHeadDim / 32;
    const int head = other_ / kEach, g = head % kPassGroup;
    const int column = g * kHeadDim + other_ % kEach * 32 + thread_;
    const Letter* parts = p_.letters->parts[head / kPassGroup][0];
    DecodeCombined combined;
    for (int begin = 0; begin < keys.parts; begin += kAtOnce) {
      const int count = keys.parts - begin < kAtOnce ? keys.parts - begin : kAtOnce;
      float values[kAtOnce], known[2];
      const Letter* from = parts + begin * kPartLetters;
      const int own = thread_ % kAtOnce < count ? thread_ % kAtOnce : count - 1;
      collect_parts(from + column, kPartLetters, count,
                    from + own * kPartLetters + kPassGroup * kHeadDim + 2 * g, time_, values,
                    known);
      combined.add(known[0], known[1], count, [&](int p) { return values[p]; });
    }
    post_pairs(p_.letters->attended + other_ * 16, float(combined.result()), 32, time_);
  }

  // stream = what attention says, merged into it.
  __device__ void give_back(const PassVectors& vectors) {
    const Letters<2, true> letters(p_.letters->attended + 2 * thread_, time_);
    reinterpret_cast<uint2*>(s_.attended)[thread_] = {letters.bits[0], letters.bits[1]};
    __syncwarp();
    const PassToken<kQuerySteps> token(s_.attended);
    wait_for(rooms_.out, kOut, layer_);
    multiply_token<kPanelTiles>(rooms_.out, token, s_.sums);
    pass_sync();
    if (thread_ < kPanelRows) {
      stream_ = vectors.after_attention(bf16(total(s_.sums, thread_)), stream_);
      post(p_.letters->after_attention + column(), stream_, time_);
    }
    tell(kOutRead);
  }

  // The expert that was guessed says its part while the router chooses.
  __device__ void experts(const DecodeLayer& l, PassVectors& vectors, int64_t slot) {
    const auto m = row(p_.letters->after_attention, time_);
    norm(m, vectors.mlp_norm);
    if (!projects()) {
      state_ = narrow(l, vectors, PassToken<kWidthSteps>(s_.normed), kChoice);
    }
    const PassMerge merge = vectors.after_mlp;
    bf16 x;
#pragma unroll 1  // longer code is slower: what all layers run must stay in the caches
    for (int turn = kGuess; turn < kPassTurns; ++turn) {
      first_product(turn);
      if (turn == kGuess && layer_ + 1 < p_.count) {
        vectors = ahead(s_.at[(layer_ + 1) % 2].layer, slot);
      }
      x = second_product(p_.letters->activated[turn]);
      if (turn == kChoice) break;
      hopper::wait_barrier(&s_.told, static_cast<uint32_t>(layer_) % 2);
      if (s_.chosen == p_.sizes.experts) x = bf16(0.0f);
      if (s_.chosen == p_.sizes.experts || s_.chosen == s_.guessed) break;
      tell(kDownRead);
    }
    if (thread_ < kPanelRows) {
      stream_ = merge(bf16(float(x) * s_.weight), stream_);
      post(p_.letters->after_mlp + column(), stream_, time_);
    }
    tell(kDownRead);
  }

  // The router's states, with a part of the layer before's in most layers.
  __device__ float narrow(const DecodeLayer& l, const PassVectors& vectors,
                          const PassToken<kWidthSteps>& token, PassTurn turn) {
    multiply_token<1>(rooms_.narrow, token, s_.sums, kNarrowSumsAt);
    pass_sync();
    tell(turn == kGuess ? kFirstRead : kNarrowRead);
    if (thread_ >= 32) return 0;
    const float sum = total(s_.sums, kNarrowSumsAt + thread_ % gpu::kSkinnyRows);
    const float now = float(bf16(sum + float(vectors.narrow_bias)));
    const float state =
        l.router_scale ? float(bf16(fmaf(state_, float(vectors.narrow_scale), now))) : now;
    post_pairs(p_.letters->states[turn] + other_ * gpu::kSkinnyRows / 2, state, gpu::kSkinnyRows,
               time_);
    return state;
  }

  // Of an expert, when its matrices have come.
  __device__ void first_product(int turn) {
    const PassToken<kWidthSteps> token(s_.normed);
    wait_for(rooms_.gate, kGate, experts_);
    multiply_token<kPanelTiles>(rooms_.gate, token, s_.sums);
    wait_for(rooms_.up, kUp, experts_);
    multiply_token<kPanelTiles>(rooms_.up, token, s_.sums, kUpSumsAt);
    pass_sync();
    if (thread_ < 32) {
      const int c = thread_ % kPanelRows;
      const bf16 value = decode_activated(total(s_.sums, c), total(s_.sums, kUpSumsAt + c));
      post_pairs(p_.letters->activated[turn] + block_ * kPanelRows / 2, float(value), kPanelRows,
                 time_);
    }
    tell(kUpRead);
  }

  // What the expert says of this thread's column.
  __device__ bf16 second_product(const Letter* from) {
    const int lane = thread_ % 32, first = thread_ / 32 * 128 + 2 * lane;
    const Letters<W / 2, true> letters(from + first, time_, 64);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      reinterpret_cast<uint2*>(s_.activated)[first / 2 + k * 32] = {letters.bits[2 * k],
                                                                    letters.bits[2 * k + 1]};
    }
    __syncwarp();
    const PassToken<kWidthSteps> token(s_.activated);
    wait_for(rooms_.down, kDown, experts_++);
    multiply_token<kPanelTiles>(rooms_.down, token, s_.sums, kDownSumsAt);
    pass_sync();
    return bf16(total(s_.sums, kDownSumsAt + thread_ % kPanelRows));
  }

  const PassPlan& p_;
  Shared& s_;
  int block_, other_, thread_;
  PassRooms<Stored> rooms_;
  int64_t cache_row_ = 0;  // of the newest key
  int layer_ = 0;
  uint32_t time_, experts_ = 0;   // that came
  float stream_ = 0, state_ = 0;  // of this thread's column, or row
};

template <class Stored>
__global__ void __launch_bounds__(kPassThreads + kPassCopyThreads, 1)
    decode_pass_layers(const __grid_constant__ PassPlan p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL  // other devices never launch it
  auto& shared = *gpu::dynamic_shared<PassShared<Stored>>();
  const bool routes = blockIdx.x == kPassBlocks, multiplies = threadIdx.x < kPassThreads;
  if (multiplies && !routes) PassBlock<Stored>(p, shared).begin();
  __syncthreads();  // of all, before they part
  if (routes) {     // the others give it what it takes, and are not needed
    if (!multiplies) return hopper::give_registers<24>();
    hopper::take_registers<240>();
    PassRouter(p, *gpu::dynamic_shared<PassRouterShared>()).run();
  } else if (multiplies) {
    hopper::take_registers<232>();
    PassBlock<Stored>(p, shared).run();
  } else {
    hopper::give_registers<40>();
    if (threadIdx.x == kPassThreads) PassCopies<Stored>(p, shared).run();
  }
#endif
}

template <class Stored>
constexpr int64_t kPassSharedBytes = std::max(sizeof(PassShared<Stored>), sizeof(PassRouterShared));

}  // namespace

int64_t decode_pass_bytes() { return sizeof(PassLetters); }

bool decode_passes(const gpu::Stream& stream, const DecodePlan& p, int rows) {
  const DecodeSizes& s = p.sizes;
  const bool shape = s.hidden == kPassWidth && s.expert_hidden == kPassWidth &&
                     s.query_heads == kPassHeads && s.kv_heads == kPassKvHeads;
  if (rows != 1 || !shape || gpu::only_portable()) return false;
  const auto format = p.layers.front().qkv.packed;
  for (const DecodeLayer& l : p.layers) {
    for (const DecodeMatrix* m : {&l.qkv, &l.out, &l.gate_up, &l.down}) {
      if (m->packed != format) return false;
    }
  }
  return hopper::processors(stream) > kPassBlocks &&
         gpu::most_shared_bytes(p.device) >= kPassSharedBytes<gpu::Bf16Matrix>;
}

void decode_pass(gpu::Stream& stream, const DecodePlan& p, const DecodeWork& w, int rows,
                 const DecodePassMemory& memory) {
  TEPHRA_ASSERT(rows == 1, "decode_passes was asked");
  visit_stored(p.layers.front().qkv, [&]<class Stored>() {
    const auto kernel = decode_pass_layers<Stored>;
    stream.allow_shared(kernel, kPassSharedBytes<Stored>);
    stream.launch_together(kernel,
                           {.blocks = kPassBlocks + 1,
                            .threads = kPassThreads + kPassCopyThreads,
                            .shared_bytes = kPassSharedBytes<Stored>},
                           PassPlan{memory.layers, static_cast<int>(p.layers.size()), w, p.sizes,
                                    static_cast<PassLetters*>(memory.letters)});
  });
}

}  // namespace tephra::zaya1
