// SPDX-License-Identifier: Apache-2.0
// XXH64 of one text a lane. Lengths differ, so lanes that have no more of a kind of step keep what
// they had.
#include "tephra/data/dedup/xxh64_lanes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/data/dedup/xxh64_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "tephra/base/hash.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::xxh64_lanes::HWY_NAMESPACE {

#if HWY_TARGET <= HWY_AVX3  // which can multiply 64 bits by 64

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::Full512<uint64_t>;
using V = hn::Vec<D>;

constexpr size_t kLanes = 8, kWords = kXxh64Readable / 8;

// The constants of XXH64.
struct Primes {
  V p1, p2, p3, p4, p5;
};

HWY_INLINE Primes primes() {
  const D d;
  return {hn::Set(d, 0x9e3779b185ebca87), hn::Set(d, 0xc2b2ae3d27d4eb4f),
          hn::Set(d, 0x165667b19e3779f9), hn::Set(d, 0x85ebca77c2b2ae63),
          hn::Set(d, 0x27d4eb2f165667c5)};
}

HWY_INLINE V round(const Primes& p, V sum, V word) {
  return hn::Mul(hn::RotateRight<33>(hn::Add(sum, hn::Mul(word, p.p2))), p.p1);
}

// Words 2 i and 2 i + 1 of each text.
HWY_INLINE void load_pair(const char* const* texts, size_t i, V* words) {
  const hn::Full128<uint64_t> d128;
  const hn::Full256<uint64_t> d256;
  const D d;
  const auto block = [&](size_t lane) HWY_ATTR {
    return hn::BitCast(d128, hn::LoadU(hn::Full128<uint8_t>(),
                                       reinterpret_cast<const uint8_t*>(texts[lane]) + 16 * i));
  };
  const auto every_other = [&](size_t lane) HWY_ATTR {
    return hn::Combine(d, hn::Combine(d256, block(lane + 6), block(lane + 4)),
                       hn::Combine(d256, block(lane + 2), block(lane)));
  };
  const V even = every_other(0), odd = every_other(1);
  words[0] = hn::InterleaveLower(d, even, odd);
  words[1] = hn::InterleaveUpper(d, even, odd);
}

// Stripes of four words; of lanes with none, the start.
HWY_INLINE V hash_stripes(const Primes& p, V sizes, size_t stripes, const V* words) {
  const D d;
  const V zero = hn::Zero(d);
  V sum[4] = {hn::Add(p.p1, p.p2), p.p2, zero, hn::Sub(zero, p.p1)};
  for (size_t s = 0; s < stripes; ++s) {
    const auto more = hn::Gt(sizes, hn::Set(d, 32 * s + 31));
    for (size_t k = 0; k < 4; ++k) {
      sum[k] = hn::IfThenElse(more, round(p, sum[k], words[4 * s + k]), sum[k]);
    }
  }
  V h = hn::Add(hn::Add(hn::RotateRight<63>(sum[0]), hn::RotateRight<57>(sum[1])),
                hn::Add(hn::RotateRight<52>(sum[2]), hn::RotateRight<46>(sum[3])));
  for (const V each : sum) {
    h = hn::Add(hn::Mul(hn::Xor(h, round(p, zero, each)), p.p1), p.p4);
  }
  return hn::IfThenElse(hn::Gt(sizes, hn::Set(d, 31)), h, p.p5);
}

// The words after the stripes, then four bytes, then single ones.
HWY_INLINE V hash_rest(const Primes& p, V h, V sizes, size_t first, size_t end, const V* words) {
  const D d;
  const V zero = hn::Zero(d);
  const V begin = hn::AndNot(hn::Set(d, 3), hn::ShiftRight<3>(sizes));
  const V whole = hn::ShiftRight<3>(sizes);
  V last = zero;
  for (size_t i = first; i < end; ++i) {
    const V at = hn::Set(d, i);
    const auto more = hn::And(hn::Lt(at, whole), hn::Gt(hn::Set(d, i + 1), begin));
    const V step = hn::Xor(h, round(p, zero, words[i]));
    h = hn::IfThenElse(more, hn::Add(hn::Mul(hn::RotateRight<37>(step), p.p1), p.p4), h);
    last = hn::IfThenElse(hn::Eq(at, whole), words[i], last);
  }
  const auto four = hn::TestBit(sizes, hn::Set(d, 4));
  const V low = hn::Mul(hn::And(last, hn::Set(d, UINT32_MAX)), p.p1);
  const V step = hn::Add(hn::Mul(hn::RotateRight<41>(hn::Xor(h, low)), p.p2), p.p3);
  h = hn::IfThenElse(four, step, h);
  last = hn::IfThenElse(four, hn::ShiftRight<32>(last), last);
  const V bytes = hn::And(sizes, hn::Set(d, 3));
  for (size_t i = 0; i < 3; ++i) {
    const V byte = hn::Mul(hn::And(last, hn::Set(d, 255)), p.p5);
    const V next = hn::Mul(hn::RotateRight<53>(hn::Xor(h, byte)), p.p1);
    h = hn::IfThenElse(hn::Gt(bytes, hn::Set(d, i)), next, h);
    last = hn::ShiftRight<8>(last);
  }
  return h;
}

HWY_INLINE V mixed(const Primes& p, V h) {
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<33>(h)), p.p2);
  h = hn::Mul(hn::Xor(h, hn::ShiftRight<29>(h)), p.p3);
  return hn::Xor(h, hn::ShiftRight<32>(h));
}

// Eight texts, all shorter than what is readable.
void hash_eight(const std::string_view* texts, uint64_t* out) {
  const D d;
  const Primes p = primes();
  const char* data[kLanes];
  HWY_ALIGN uint64_t size[kLanes];
  size_t least = SIZE_MAX, most = 0;
  for (size_t i = 0; i < kLanes; ++i) {
    data[i] = texts[i].data();
    size[i] = texts[i].size();
    least = std::min(least, texts[i].size());
    most = std::max(most, texts[i].size());
  }
  V words[kWords];
  for (size_t i = 0; i <= most / 16; ++i) load_pair(data, i, words + 2 * i);
  const V sizes = hn::Load(d, size);
  const V h = hn::Add(hash_stripes(p, sizes, most / 32, words), sizes);
  hn::StoreU(mixed(p, hash_rest(p, h, sizes, least / 32 * 4, most / 8 + 1, words)), d, out);
}

void hash_each(std::span<const std::string_view> texts, uint64_t* out) {
  size_t i = 0;
  for (; i + kLanes <= texts.size(); i += kLanes) {
    const auto eight = texts.subspan(i, kLanes);
    if (std::all_of(eight.begin(), eight.end(),
                    [](std::string_view text) { return text.size() < kXxh64Readable; })) {
      hash_eight(eight.data(), out + i);
    } else {
      for (size_t j = i; j < i + kLanes; ++j) out[j] = xxh64(texts[j], 0);
    }
  }
  for (; i < texts.size(); ++i) out[i] = xxh64(texts[i], 0);
}

#else

void hash_each(std::span<const std::string_view> texts, uint64_t* out) {
  for (size_t i = 0; i < texts.size(); ++i) out[i] = xxh64(texts[i], 0);
}

#endif

}  // namespace tephra::xxh64_lanes::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra {
namespace xxh64_lanes {
HWY_EXPORT(hash_each);
}  // namespace xxh64_lanes

void xxh64_each(std::span<const std::string_view> texts, uint64_t* out) {
  using namespace xxh64_lanes;  // NOLINT(google-build-using-namespace): the table of targets
  HWY_DYNAMIC_DISPATCH(hash_each)(texts, out);
}

}  // namespace tephra
#endif
