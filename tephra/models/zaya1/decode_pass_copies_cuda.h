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
        up{s.out},
        down{projects ? s.last : s.first},
        narrow{s.first} {}
};

// Told by the multiplying threads, after a barrier of theirs.
__device__ inline void tell_read(uint32_t* to, int layer, PassRead what) {
  asm volatile("st.release.cta.shared.u32 [%0], %1;" ::"r"(gpu::hopper::shared_address(to)),
               "r"(static_cast<uint32_t>(layer * kPassReads + what))
               : "memory");
}

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
      wait_for(kFirstRead);
      ask_all(rooms_.out, l.out.data, row_, kOut, layer_, kOthersAtOnce);
      // One is guessed where none may be chosen, too.
      const int likely = told(kGuess, time), guessed = likely < p_.sizes.experts ? likely : 0;
      s_.guessed = guessed;
      ask_expert(l, guessed, projects() ? kFirstRead : kKeysRead, kOutRead,
                 projects() ? kKeysRead : kNarrowRead, kExpertAtOnce);
      const int chosen = told(kChoice, time);
      const bool wrong = chosen != guessed && chosen != p_.sizes.experts;
      if (wrong) ask_expert(l, chosen, kGuessRead, kGuessRead, kGuessDownRead, kPassPieces);
      if (layer_ + 1 == p_.count) return;
      if (projects()) {
        wait_for(wrong ? kChosenRead : kGuessRead);
      } else {
        wait_for(wrong ? kChosenDownRead : kGuessDownRead);
      }
      ask_first(layer_ + 1);
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

  __device__ int told(PassTurn turn, uint32_t time) const {
    return static_cast<int>(Letters<2>(p_.letters->choice[turn][blockIdx.x], time).bits[0]);
  }

  __device__ bool has(PassRead what) const {
    uint32_t read;
    asm volatile("ld.acquire.cta.shared.u32 %0, [%1];"
                 : "=r"(read)
                 : "r"(gpu::hopper::shared_address(&s_.read))
                 : "memory");
    return read >= static_cast<uint32_t>(layer_ * kPassReads + what);
  }
  __device__ void wait_for(PassRead what) const {
    while (!has(what)) {
    }
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

  __device__ void ask_first(int i) {
    const DecodeLayer& l = s_.at[i % 2].layer;
    if (projects()) {
      ask_all(rooms_.first, l.qkv.data, row_, kFirst, i, kOthersAtOnce);
    } else {
      ask_all(rooms_.narrow, l.router_down, other_ * gpu::kSkinnyRows, kFirst, i, kOthersAtOnce);
    }
  }

  // Of what has room, what is needed first. The rooms are free when so much has been read.
  __device__ void ask_expert(const DecodeLayer& l, int64_t expert, PassRead gate_free,
                             PassRead up_free, PassRead down_free, int at_once) {
    const int64_t row = expert * 2 * kPassWidth + row_;
    int gates = 0, ups = 0, downs = 0;
#pragma unroll 1
    while (gates + ups + downs < 3 * kPassPieces) {
      if (gates < kPassPieces && has(gate_free)) {
        ask(rooms_.gate, l.gate_up.data, row, kGate, gates++, experts_, at_once);
      } else if (ups < kPassPieces && has(up_free)) {
        ask(rooms_.up, l.gate_up.data, row + kPassWidth, kUp, ups++, experts_, at_once);
      } else if (downs < kPassPieces && has(down_free)) {
        ask(rooms_.down, l.down.data, expert * kPassWidth + row_, kDown, downs++, experts_,
            at_once);
      }
    }
    ++experts_;
  }

  const PassPlan& p_;
  Shared& s_;
  int64_t row_;
  int other_, layer_ = 0;
  PassRooms<Stored> rooms_;
  uint32_t experts_ = 0;  // that came
  // The last eight pieces that were asked for, the newest lowest, a byte each.
  static constexpr uint32_t kTurn = 0x40, kAsked = 0x80;
  static_assert(kPassMatrices * kPassPieces <= kTurn && kPassPieces <= 8);
  uint64_t asked_ = 0;
};

}  // namespace tephra::zaya1
