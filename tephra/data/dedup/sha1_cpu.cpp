// SPDX-License-Identifier: Apache-2.0
// SHA-1 of one text a lane.
#include "tephra/data/dedup/sha1.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/data/dedup/sha1_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>

HWY_BEFORE_NAMESPACE();
namespace tephra::sha1_detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<uint32_t, kMostLanes>;
using V = hn::Vec<D>;

size_t lanes() { return hn::Lanes(D()); }

// Sixteen words of every lane: four times four vectors, whose blocks of sixteen bytes are those of
// four neighbouring lanes.
HWY_INLINE void load_words(const uint8_t* staged, V* w) {
  const D d;
  const hn::Repartition<uint8_t, D> d8;
  const hn::Repartition<uint64_t, D> d64;
  alignas(16) static constexpr uint8_t kSwap[16] = {3,  2,  1, 0, 7,  6,  5,  4,
                                                    11, 10, 9, 8, 15, 14, 13, 12};
  const auto swap = hn::LoadDup128(d8, kSwap);
  const size_t step = 4 * hn::Lanes(d);
  const auto lower = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const auto upper = [&](V a, V b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  for (size_t g = 0; g < 4; ++g) {
    const auto row = [&](size_t j) HWY_ATTR {
      return hn::BitCast(d, hn::TableLookupBytes(hn::LoadU(d8, staged + (4 * g + j) * step), swap));
    };
    const V r0 = row(0), r1 = row(1), r2 = row(2), r3 = row(3);
    const V low01 = hn::InterleaveLower(d, r0, r1), low23 = hn::InterleaveLower(d, r2, r3);
    const V high01 = hn::InterleaveUpper(d, r0, r1), high23 = hn::InterleaveUpper(d, r2, r3);
    w[4 * g] = lower(low01, low23);
    w[4 * g + 1] = upper(low01, low23);
    w[4 * g + 2] = lower(high01, high23);
    w[4 * g + 3] = upper(high01, high23);
  }
}

struct LaneState {
  V a, b, c, d, e;
};

// Rounds [20 * kPart, 20 * kPart + 20) of eighty.
template <size_t kPart>
HWY_INLINE void twenty_rounds(LaneState& s, V* w) {
  const D d;
  constexpr uint32_t kAdd[4] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
  const auto add = hn::Set(d, kAdd[kPart]);
  for (size_t t = 20 * kPart; t < 20 * kPart + 20; ++t) {
    if (t >= 16) {
      const auto x =
          hn::Xor(hn::Xor(w[(t + 13) % 16], w[(t + 8) % 16]), hn::Xor(w[(t + 2) % 16], w[t % 16]));
      w[t % 16] = hn::RotateRight<31>(x);
    }
    V f;
    if constexpr (kPart == 0) {
      f = hn::IfVecThenElse(s.b, s.c, s.d);
    } else if constexpr (kPart == 2) {  // what two of three have
      f = hn::IfVecThenElse(hn::Xor(s.b, s.c), s.d, s.b);
    } else {
      f = hn::Xor(hn::Xor(s.b, s.c), s.d);
    }
    const auto rest = hn::Add(hn::Add(s.e, add), hn::Add(w[t % 16], f));
    const V next = hn::Add(hn::RotateRight<27>(s.a), rest);
    s = {next, s.a, hn::RotateRight<2>(s.b), s.c, s.d};
  }
}

void prefixes(const uint8_t* staged, size_t blocks, uint32_t* out) {
  const D d;
  LaneState state{hn::Set(d, kStart[0]), hn::Set(d, kStart[1]), hn::Set(d, kStart[2]),
                  hn::Set(d, kStart[3]), hn::Set(d, kStart[4])};
  for (size_t block = 0; block < blocks; ++block) {
    V w[16];
    load_words(staged + block * 64 * hn::Lanes(d), w);
    LaneState s = state;
    twenty_rounds<0>(s, w);
    twenty_rounds<1>(s, w);
    twenty_rounds<2>(s, w);
    twenty_rounds<3>(s, w);
    state = {hn::Add(state.a, s.a), hn::Add(state.b, s.b), hn::Add(state.c, s.c),
             hn::Add(state.d, s.d), hn::Add(state.e, s.e)};
  }
  hn::StoreU(state.a, d, out);
}

}  // namespace tephra::sha1_detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::sha1_detail {

HWY_EXPORT(lanes);
HWY_EXPORT(prefixes);

size_t lanes() { return HWY_DYNAMIC_DISPATCH(lanes)(); }
void lane_prefixes(const uint8_t* staged, size_t blocks, uint32_t* out) {
  HWY_DYNAMIC_DISPATCH(prefixes)(staged, blocks, out);
}

}  // namespace tephra::sha1_detail
#endif
