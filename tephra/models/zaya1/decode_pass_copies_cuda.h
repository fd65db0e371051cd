// SPDX-License-Identifier: Apache-2.0
// Who brings the matrices of decode_pass_cuda.cu: one thread of each block, beside those that
// multiply. It hears the router's guess and choice by itself, and asks for pieces as rooms become
// free, few at once: a letter waits behind every byte that memory has been asked for, so memory is
// kept busy but not crowded.
#pragma once

#include "tephra/models/zaya1/decode_pass_panels_cuda.h"

namespace tephra::zaya1 {

template <class Stored>
struct PassRooms {
  using Shared = PassShared<Stored>;
  using Wide = typename Shared::Wide;
  Wide first;
  typename Shared::Out out;
  Wide gate, up, down;
  PassNarrow narrow;

  __device__ PassRooms(Shared& s, bool projects)
      : first{s.first},
        out{s.out},
        gate{projects ? s.first : s.last},
        up{s.out + Shared::kUpAt},
        down{projects ? s.last : s.first},
        narrow{s.first} {}
};

template <class Stored>
class PassCopies {
 public:
  using Shared = PassShared<Stored>;

  __device__ PassCopies(const PassPlan& p, Shared& shared)
      : p_(p),
        s_(shared),
        row_(static_cast<int>(blockIdx.x) * kPanelRows),
        other_(static_cast<int>(blockIdx.x) - kProjectBlocks),
        rooms_(shared, projects()) {}

  __device__ void run() {
    uint32_t time = p_.letters->time;
    ask_first(0);
    for (;; ++layer_) {
      ++time;
      const DecodeLayer& l = s_.at[layer_ % 2].layer;
      wait_for(kFirstRead, layer_);
      ask_out(l);
      // One is guessed where none may be chosen, too.
      const int likely = Told(p_, kGuess, time).expert;
      const int guessed = likely < p_.sizes.experts ? likely : 0;
      s_.guessed = guessed;
      ask_expert(l, guessed,
                 {projects() ? kFirstRead : kKeysRead, kOutRead,
                  projects() ? kKeysRead : kNarrowRead, layer_},
                 kExpertAtOnce);
      const Told choice(p_, kChoice, time);
      s_.chosen = choice.expert;
      s_.weight = choice.weight;
      gpu::hopper::arrive(&s_.told);
      const bool wrong = choice.expert != guessed && choice.expert != p_.sizes.experts;
      if (wrong) {
        ask_expert(l, choice.expert, {kUpRead, kUpRead, kDownRead, experts_ - 1}, kPassPieces);
      }
      if (layer_ + 1 == static_cast<uint32_t>(p_.count)) return;
      wait_for(projects() ? kUpRead : kDownRead, experts_ - 1);
      ask_first(layer_ + 1);
      // Both have long been read when the next layer begins: no barrier passes unheard.
      wait_for(projects() ? kDownRead : kUpRead, experts_ - 1);
    }
  }

 private:
  // Pieces on their way while letters are, too: more bytes slow these down, fewer the pieces
  // (docs/decisions/0112). Counted by the pieces of a wide matrix; those of the way back are half
  // as large, the router's are bf16 in every format. What replaces a wrong guess waits for nobody.
  static constexpr int pieces_of(int bytes) {
    const int pieces = bytes * kPassPieces / Shared::Wide::kBytes;
    return pieces < kPassPieces ? pieces : kPassPieces;
  }
  static constexpr int kExpertAtOnce = pieces_of(25 << 10), kOthersAtOnce = pieces_of(17 << 10);

  __device__ bool projects() const { return other_ < 0; }

  // What the router says.
  struct Told {
    int expert;
    float weight;

    __device__ Told(const PassPlan& p, PassTurn turn, uint32_t time) {
      const Letters<2> letters(p.letters->choice[turn][blockIdx.x], time);
      expert = static_cast<int>(letters.bits[0]);
      weight = letters.value(1);
    }
  };

  // `turn`: how often it had been read before.
  __device__ bool has(PassRead what, uint32_t turn) const {
    return gpu::hopper::passed_barrier(&s_.read[what], turn % 2);
  }
  __device__ void wait_for(PassRead what, uint32_t turn) const {
    gpu::hopper::wait_barrier(&s_.read[what], turn % 2);
  }

  // When at most `at_once` - 1 of those before are still on their way. `turn` counts how often the
  // matrix has come.
  template <class Panel>
  __device__ void ask(const Panel& panel, const void* matrix, int64_t row, PassMatrix which,
                      int piece, uint32_t turn, int at_once) {
    const uint32_t due = static_cast<uint32_t>(asked_ >> 8 * (at_once - 1)) & 0xff;
    if (due & kAsked) {
      gpu::hopper::wait_barrier(&s_.arrived[0][0] + due % kTurn, due / kTurn % 2);
    }
    asked_ = asked_ << 8 | kAsked | turn % 2 * kTurn | (which * kPassPieces + piece);
    panel.ask(matrix, row, piece, &s_.arrived[which][piece]);
  }
  template <class Panel>
  __device__ void ask_all(const Panel& panel, const void* matrix, int64_t row, PassMatrix which,
                          uint32_t turn, int at_once) {
#pragma unroll 1
    for (int i = 0; i < kPassPieces; ++i) ask(panel, matrix, row, which, i, turn, at_once);
  }

  __device__ void ask_first(uint32_t i) {
    const DecodeLayer& l = s_.at[i % 2].layer;
    if (projects()) {
      ask_all(rooms_.first, l.qkv.data, row_, kFirst, i, kOthersAtOnce);
    } else {
      ask_all(rooms_.narrow, l.router_down, other_ * gpu::kSkinnyRows, kFirst, i, kOthersAtOnce);
    }
  }

  // The next layer's first matrix has no room yet, but memory has time: it comes to the L2 cache.
  __device__ void ask_out(const DecodeLayer& l) {
    const bool more = layer_ + 1 < static_cast<uint32_t>(p_.count);
    const DecodeLayer& next = p_.layers[more ? layer_ + 1 : layer_];
    const void* first = projects() ? next.qkv.data : next.router_down;
#pragma unroll 1
    for (int i = 0; i < kPassPieces; ++i) {
      ask(rooms_.out, l.out.data, row_, kOut, i, layer_, kOthersAtOnce);
      if (!more) continue;
      if (projects()) {
        Shared::Wide::prefetch(first, row_, i);
      } else {
        PassNarrow::prefetch(first, other_ * gpu::kSkinnyRows, i);
      }
    }
  }

  // When an expert's rooms are free.
  struct Free {
    PassRead gate, up, down;
    uint32_t turn;
  };

  // Of what has room, what is needed first. The later half of up's room is free when gate's is.
  __device__ void ask_expert(const DecodeLayer& l, int64_t expert, const Free& free, int at_once) {
    constexpr int kHalf = kPassPieces / 2;
    const int64_t row = expert * 2 * kPassWidth + row_;
    int gates = 0, ups = 0, downs = 0;
#pragma unroll 1
    while (gates + ups + downs < 3 * kPassPieces) {
      if (gates < kPassPieces && has(free.gate, free.turn)) {
        ask(rooms_.gate, l.gate_up.data, row, kGate, gates++, experts_, at_once);
      } else if (ups < kPassPieces && gates > 0 && (ups < kHalf || has(free.up, free.turn))) {
        ask(rooms_.up, l.gate_up.data, row + kPassWidth, kUp, (ups++ + kHalf) % kPassPieces,
            experts_, at_once);
      } else if (downs < kPassPieces && has(free.down, free.turn)) {
        ask(rooms_.down, l.down.data, expert * kPassWidth + row_, kDown, downs++, experts_,
            at_once);
      }
    }
    ++experts_;
  }

  const PassPlan& p_;
  Shared& s_;
  int64_t row_;
  int other_;
  uint32_t layer_ = 0;
  PassRooms<Stored> rooms_;
  uint32_t experts_ = 0;  // that came
  // The last eight pieces that were asked for, the newest lowest, a byte each.
  static constexpr uint32_t kTurn = 0x40, kAsked = 0x80;
  static_assert(kPassMatrices * kPassPieces <= kTurn && kPassPieces <= 8);
  uint64_t asked_ = 0;
};

}  // namespace tephra::zaya1
