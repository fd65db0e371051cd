// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/ascii_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/data/dedup/ascii_blocks_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace tephra::ascii_blocks::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::CappedTag<uint8_t, kAsciiBlock>;

template <class M>
HWY_INLINE void put_bits(D8 d, M mask, size_t at, uint64_t& to) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  to |= bits << at;
}

void classify(const char* text, size_t blocks, const AsciiClasses& classes, AsciiMasks* masks,
              char* lowered) {
  const D8 d;
  const hn::Repartition<uint16_t, D8> d16;
  const auto table = [&](const AsciiClass& c) HWY_ATTR { return hn::LoadDup128(d, c.rows.data()); };
  const auto chars = table(classes.chars), gaps = table(classes.gaps);
  const auto numbers = table(classes.numbers);
  alignas(16) static constexpr uint8_t kBits[16] = {1, 2, 4, 8, 16, 32, 64, 128};
  const auto bit_of = hn::LoadDup128(d, kBits);
  const auto low_nibble = hn::Set(d, 15);
  const auto zero = hn::Zero(d);
  for (size_t block = 0; block < blocks; ++block) {
    AsciiMasks all;
    for (size_t at = 0; at < kAsciiBlock; at += hn::Lanes(d)) {
      const size_t i = block * kAsciiBlock + at;
      const auto c = hn::LoadU(d, reinterpret_cast<const uint8_t*>(text) + i);
      const auto high = hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, c))), low_nibble);
      const auto low = hn::And(c, low_nibble);
      const auto bit = hn::TableLookupBytes(bit_of, high);  // none for what is not ASCII
      const auto in = [&](auto rows) HWY_ATTR {
        return hn::Ne(hn::And(hn::TableLookupBytes(rows, low), bit), zero);
      };
      const auto number = in(numbers);
      put_bits(d, in(chars), at, all.chars);
      put_bits(d, in(gaps), at, all.gaps);
      put_bits(d, number, at, all.numbers);
      put_bits(d, hn::Gt(c, hn::Set(d, 127)), at, all.wide);
      const auto capital = hn::And(hn::Gt(c, hn::Set(d, 'A' - 1)), hn::Lt(c, hn::Set(d, 'Z' + 1)));
      const auto small = hn::IfThenElse(capital, hn::Add(c, hn::Set(d, 'a' - 'A')), c);
      const auto put = hn::IfThenElse(number, hn::Set(d, '0'), small);
      hn::StoreU(put, d, reinterpret_cast<uint8_t*>(lowered) + i);
    }
    masks[block] = all;
  }
}

}  // namespace tephra::ascii_blocks::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra {
namespace ascii_blocks {
HWY_EXPORT(classify);
}  // namespace ascii_blocks

void classify_ascii(const char* text, size_t blocks, const AsciiClasses& classes, AsciiMasks* masks,
                    char* lowered) {
  using namespace ascii_blocks;  // NOLINT(google-build-using-namespace): the table of targets
  HWY_DYNAMIC_DISPATCH(classify)(text, blocks, classes, masks, lowered);
}

}  // namespace tephra
#endif
