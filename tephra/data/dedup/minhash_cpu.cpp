// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/minhash.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tephra/data/dedup/minhash_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "tephra/data/dedup/minhash_kernels.h"
#include "tephra/data/dedup/murmur3.h"

HWY_BEFORE_NAMESPACE();
namespace tephra::minhash::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D32 = hn::ScalableTag<uint32_t>;
using D64 = hn::ScalableTag<uint64_t>;

// a b mod 2^64.
template <class V>
HWY_INLINE V multiply(V a, V b) {
#if HWY_TARGET <= HWY_AVX3
  return hn::Mul(a, b);
#else
  const D32 d32;
  const auto product = [&](V x, V y) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, x), hn::BitCast(d32, y));
  };
  const auto cross = hn::Add(product(hn::ShiftRight<32>(a), b), product(a, hn::ShiftRight<32>(b)));
  return hn::Add(product(a, b), hn::ShiftLeft<32>(cross));
#endif
}

HWY_INLINE hn::Vec<D64> load_wide(const uint64_t* hashes) { return hn::LoadU(D64(), hashes); }
HWY_INLINE hn::Vec<D64> load_wide(const uint32_t* hashes) {
  const D64 d;
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<uint32_t, D64>(), hashes));
}

// The least value of permutation i over a block, computed in full: all its bits, or the low word.
template <class Kernel, class Hash>
HWY_INLINE Hash exact_least(const Kernel& k, size_t i, const Hash* hashes) {
  const D64 d;
  const hn::RebindToSigned<D64> signed_d;  // below 2^62, where their minimum is quicker
  const auto a = hn::Set(d, k.a[i]), b = hn::Set(d, k.b[i]);
  const auto p = hn::Set(d, kMersenne61), kept = hn::Set(d, Hash(-1));
  auto least = hn::Set(signed_d, INT64_MAX);
  for (size_t at = 0; at < kBlock; at += hn::Lanes(d)) {
    const auto v = hn::Add(multiply(load_wide(hashes + at), a), b);
    const auto sum = hn::Add(hn::And(v, p), hn::ShiftRight<61>(v));  // at most p + 7
    const auto less = hn::BitCast(signed_d, hn::Sub(sum, p));
    const auto value = hn::IfNegativeThenElse(less, hn::BitCast(signed_d, sum), less);
    least = hn::Min(least, hn::And(value, hn::BitCast(signed_d, kept)));
  }
  return static_cast<Hash>(hn::GetLane(hn::MinOfLanes(signed_d, least)));
}

template <class Kernel, class Hash>
HWY_INLINE void lower_block(const Kernel& k, size_t i, const Hash* hashes) {
  k.minima[i] = std::min(k.minima[i], exact_least(k, i, hashes));
  k.bounds[i] = k.bound_of(k.minima[i]);
}

// The least of the words by which a kernel compares values, over a block, for as many permutations
// as a vector has words: their minimum is quick on all vector units.
struct LowWords {
  hn::Vec<D32> a, b;

  LowWords(const Mersenne32Kernel& k, size_t i)
      : a(hn::LoadU(D32(), k.low_a + i)), b(hn::LoadU(D32(), k.low_b + i)) {}

  HWY_INLINE hn::Vec<D32> least(const uint32_t* hashes) const {
    auto words = of(hashes[0]);
    for (size_t h = 1; h < kBlock; ++h) words = hn::Min(words, of(hashes[h]));
    return words;
  }
  HWY_INLINE hn::Vec<D32> of(uint32_t hash) const {
    return hn::Add(hn::Mul(hn::Set(D32(), hash), a), b);
  }
};

#if HWY_TARGET <= HWY_AVX3  // which can multiply 64 bits by 64

// Permutations with an even number and those with an odd one, of which the upper words count.
struct TopWords {
  hn::Vec<D64> even_a, odd_a, even_b, odd_b;

  TopWords(const Mersenne64Kernel& k, size_t i) {
    const auto pairs = [&](const uint32_t* words)
                           HWY_ATTR { return hn::BitCast(D64(), hn::LoadU(D32(), words + i)); };
    const auto low = hn::Set(D64(), UINT32_MAX);
    even_b = hn::ShiftLeft<32>(pairs(k.high_b));
    odd_b = hn::AndNot(low, pairs(k.high_b));
    even_a = hn::Or(hn::ShiftLeft<32>(pairs(k.high_a)), hn::And(low, pairs(k.low_a)));
    odd_a = hn::Or(hn::AndNot(low, pairs(k.high_a)), hn::ShiftRight<32>(pairs(k.low_a)));
  }

  HWY_INLINE hn::Vec<D32> least(const uint64_t* hashes) const {
    const D32 d;
    auto even = of(hashes[0], even_a, even_b), odd = of(hashes[0], odd_a, odd_b);
    for (size_t h = 1; h < kBlock; ++h) {
      even = hn::Min(even, of(hashes[h], even_a, even_b));
      odd = hn::Min(odd, of(hashes[h], odd_a, odd_b));
    }
    return hn::OddEven(odd, hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(D64(), even))));
  }
  static HWY_INLINE hn::Vec<D32> of(uint64_t hash, hn::Vec<D64> a, hn::Vec<D64> b) {
    return hn::BitCast(D32(), hn::Add(hn::Mul(hn::Set(D64(), hash), a), b));
  }
};

#else

// The product of the two lower words is only estimated, by their upper halves.
struct TopWords {
  hn::Vec<D32> low, high, half, b;

  TopWords(const Mersenne64Kernel& k, size_t i)
      : low(hn::LoadU(D32(), k.low_a + i)),
        high(hn::LoadU(D32(), k.high_a + i)),
        half(hn::And(low, hn::Set(D32(), 0xffff0000))),
        b(hn::LoadU(D32(), k.high_b + i)) {}

  HWY_INLINE hn::Vec<D32> least(const uint64_t* hashes) const {
    auto words = of(hashes[0]);
    for (size_t h = 1; h < kBlock; ++h) words = hn::Min(words, of(hashes[h]));
    return words;
  }
  HWY_INLINE hn::Vec<D32> of(uint64_t hash) const {
    const D32 d;
    const hn::Repartition<uint16_t, D32> halves;
    const auto hash_low = hn::Set(d, static_cast<uint32_t>(hash));
    const auto hash_high = hn::Set(d, static_cast<uint32_t>(hash >> 32));
    const auto cross = hn::Add(hn::Mul(hash_low, high), hn::Mul(hash_high, low));
    const auto carried = hn::MulHigh(hn::BitCast(halves, hash_low), hn::BitCast(halves, half));
    return hn::Add(hn::Add(cross, b), hn::BitCast(d, carried));
  }
};

#endif

// Permutations [i, i + lanes) over some blocks.
template <class Words, class Kernel, class Hash>
HWY_INLINE void lower_permutations(const Kernel& k, size_t i, const Hash* hashes, size_t blocks) {
  const D32 d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN uint32_t least[kSegmentBlocks * kLanes];
  const Words words(k, i);
  const auto most = hn::Set(d, UINT32_MAX), slack = hn::Set(d, Kernel::kSlack);
  auto low = most, where = hn::Zero(d);
  auto sure = most;  // the least of words that have not wrapped around, less the slack
  for (size_t block = 0; block < blocks; ++block) {
    const auto in_block = words.least(hashes + block * kBlock);
    hn::Store(in_block, d, least + block * lanes);
    where = hn::IfThenElse(hn::Lt(in_block, low), hn::Set(d, static_cast<uint32_t>(block)), where);
    low = hn::Min(low, in_block);
    sure = hn::Min(sure, hn::Sub(in_block, slack));
  }
  // The minimum is at most the least sure word, and its own word no further than the slack above
  // it.
  const auto top = hn::Add(sure, hn::Set(d, 2 * Kernel::kSlack));
  const auto limit =
      hn::Min(hn::IfThenElse(hn::Lt(top, sure), most, top), hn::LoadU(d, k.bounds + i));
  const auto one = hn::Set(d, uint32_t{1});
  auto near = hn::Zero(d);  // blocks that could hold the minimum: one, but for equal hashes
  for (size_t block = 0; block < blocks; ++block) {
    const auto above = hn::Gt(hn::Load(d, least + block * lanes), limit);
    near = hn::Add(near, hn::IfThenZeroElse(above, one));
  }
  HWY_ALIGN uint32_t first[kLanes], counts[kLanes], limits[kLanes];
  hn::Store(where, d, first);
  hn::Store(near, d, counts);
  hn::Store(limit, d, limits);
  for (size_t lane = 0; lane < lanes; ++lane) {
    if (counts[lane] == 1) {
      lower_block(k, i + lane, hashes + size_t{first[lane]} * kBlock);
    } else if (counts[lane] > 1) {
      for (size_t block = 0; block < blocks; ++block) {
        if (least[block * lanes + lane] > limits[lane]) continue;
        lower_block(k, i + lane, hashes + block * kBlock);
      }
    }
  }
}

template <class Words, class Kernel>
HWY_INLINE void lower_all(const Kernel& k) {
  const size_t all = (k.hash_count + kBlock - 1) / kBlock;
  for (size_t block = 0; block < all; block += kSegmentBlocks) {
    for (size_t i = 0; i < k.padded; i += hn::Lanes(D32())) {
      lower_permutations<Words>(k, i, k.hashes + block * kBlock,
                                std::min(kSegmentBlocks, all - block));
    }
  }
}

void mersenne32(const Mersenne32Kernel& k) { lower_all<LowWords>(k); }
void mersenne64(const Mersenne64Kernel& k) { lower_all<TopWords>(k); }

void native32(const Native32Kernel& k) {
  const D32 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < k.count; i += lanes) {
    const auto a = hn::LoadU(d, k.a + i), b = hn::LoadU(d, k.b + i);
    auto least = hn::Set(d, UINT32_MAX);
    for (size_t h = 0; h < k.hash_count; ++h) {
      least = hn::Min(least, hn::Mul(hn::Xor(hn::Set(d, k.hashes[h]), b), a));
    }
    hn::StoreU(least, d, k.minima + i);
  }
}

// The blocks, mixed once, go into the state of every seed; two vectors of seeds at a time, which
// share what is loaded.
template <size_t kBlocks>
void seeded_murmur_of(const MurmurKernel& k) {
  const D32 d;
  const size_t lanes = hn::Lanes(d), blocks = kBlocks > 0 ? kBlocks : k.blocks;
  const auto plus = hn::Set(d, murmur::kAdd), five = hn::Set(d, k.five);
  const auto times1 = hn::Set(d, 0x85ebca6b), times2 = hn::Set(d, 0xc2b2ae35);
  const auto step = [&](hn::Vec<D32> h, hn::Vec<D32> block) HWY_ATTR {
    return hn::Add(hn::Mul(hn::RotateRight<19>(hn::Xor(h, block)), five), plus);
  };
  const auto end = [&](hn::Vec<D32> h) HWY_ATTR {
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), times1);
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), times2);
    return hn::Xor(h, hn::ShiftRight<16>(h));
  };
  for (size_t i = 0; i < k.count; i += 2 * lanes) {
    const size_t j = i + lanes < k.count ? i + lanes : i;  // the last one may be alone
    const auto seed_i = hn::LoadU(d, k.seeds + i), seed_j = hn::LoadU(d, k.seeds + j);
    auto least_i = hn::LoadU(d, k.minima + i), least_j = hn::LoadU(d, k.minima + j);
    for (size_t w = 0; w < k.windows; ++w) {
      const uint32_t* mixed = k.mixed + k.starts[w];
      auto h_i = seed_i, h_j = seed_j;
      for (size_t b = 0; b < blocks; ++b) {
        const auto block = hn::Set(d, mixed[4 * b]);
        h_i = step(h_i, block);
        h_j = step(h_j, block);
      }
      const auto last = hn::Set(d, k.last[w]);
      least_i = hn::Min(least_i, end(hn::Xor(h_i, last)));
      least_j = hn::Min(least_j, end(hn::Xor(h_j, last)));
    }
    hn::StoreU(least_i, d, k.minima + i);
    hn::StoreU(least_j, d, k.minima + j);
  }
}

void seeded_murmur(const MurmurKernel& k) {
  constexpr size_t kUsual = 6;  // of 25 ASCII characters
  if (k.blocks == kUsual) return seeded_murmur_of<kUsual>(k);
  seeded_murmur_of<0>(k);
}

// One seed, and a window from each byte: neighbours lie in neighbouring lanes.
void murmur_windows(const WindowHashKernel& k) {
  const D32 d;
  const auto plus = hn::Set(d, murmur::kAdd), five = hn::Set(d, 5);
  for (size_t w = 0; w < k.windows; w += hn::Lanes(d)) {
    auto h = hn::Set(d, k.seed);
    for (size_t block = 0; block < k.blocks; ++block) {
      h = hn::RotateRight<19>(hn::Xor(h, hn::LoadU(d, k.mixed + w + 4 * block)));
      h = hn::Add(hn::Mul(h, five), plus);
    }
    h = hn::Xor(h, hn::LoadU(d, k.last + w));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x85ebca6b));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(d, 0xc2b2ae35));
    hn::StoreU(hn::Xor(h, hn::ShiftRight<16>(h)), d, k.hashes + w);
  }
}

}  // namespace tephra::minhash::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tephra::minhash {

HWY_EXPORT(mersenne32);
HWY_EXPORT(mersenne64);
HWY_EXPORT(native32);
HWY_EXPORT(seeded_murmur);
HWY_EXPORT(murmur_windows);

void run(const Mersenne32Kernel& k) { HWY_DYNAMIC_DISPATCH(mersenne32)(k); }
void run(const Mersenne64Kernel& k) { HWY_DYNAMIC_DISPATCH(mersenne64)(k); }
void run(const Native32Kernel& k) { HWY_DYNAMIC_DISPATCH(native32)(k); }
void run(const MurmurKernel& k) { HWY_DYNAMIC_DISPATCH(seeded_murmur)(k); }
void run(const WindowHashKernel& k) { HWY_DYNAMIC_DISPATCH(murmur_windows)(k); }

}  // namespace tephra::minhash
#endif
