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

template <class D, class M>
HWY_INLINE uint64_t bits_of(D d, M mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

// Hashes of this block for which permutation i could be below its minimum: few, computed in full.
void lower_block(const Mersenne32Kernel& k, size_t i, const uint32_t* hashes) {
  const D32 d;
  const auto a = hn::Set(d, k.low_a[i]), b = hn::Set(d, k.low_b[i]);
  const auto bound = hn::Set(d, k.bounds[i]);
  uint32_t least = k.minima[i];
  for (size_t at = 0; at < kBlock; at += hn::Lanes(d)) {
    const auto u = hn::Add(hn::Mul(hn::LoadU(d, hashes + at), a), b);
    for (uint64_t bits = bits_of(d, hn::Not(hn::Gt(u, bound))); bits != 0; bits &= bits - 1) {
      const auto lane = at + static_cast<size_t>(__builtin_ctzll(bits));
      least = std::min(least, mersenne_low(k.a[i] * hashes[lane] + k.b[i]));
    }
  }
  k.minima[i] = least;
  k.bounds[i] = bound_of(least);
}

// Permutations [i, i + lanes) over some blocks.
void lower_permutations(const Mersenne32Kernel& k, size_t i, const uint32_t* hashes,
                        size_t blocks) {
  const D32 d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN uint32_t least[kSegmentBlocks * kLanes];
  const auto a = hn::LoadU(d, k.low_a + i), b = hn::LoadU(d, k.low_b + i);
  const auto most = hn::Set(d, UINT32_MAX);
  auto low = most;
  for (size_t block = 0; block < blocks; ++block) {
    auto in_block = most;
    for (size_t h = 0; h < kBlock; ++h) {
      const auto hash = hn::Set(d, hashes[block * kBlock + h]);
      in_block = hn::Min(in_block, hn::Add(hn::Mul(hash, a), b));
    }
    hn::Store(in_block, d, least + block * lanes);
    low = hn::Min(low, in_block);
  }
  // The minimum is at most the least value, and no further than kSlack below a value of its own.
  const auto top = hn::Add(low, hn::Set(d, kSlack));
  const auto limit =
      hn::Min(hn::IfThenElse(hn::Lt(top, low), most, top), hn::LoadU(d, k.bounds + i));
  for (size_t block = 0; block < blocks; ++block) {
    const auto above = hn::Gt(hn::Load(d, least + block * lanes), limit);
    if (hn::AllTrue(d, above)) continue;
    for (uint64_t bits = bits_of(d, hn::Not(above)); bits != 0; bits &= bits - 1) {
      lower_block(k, i + static_cast<size_t>(__builtin_ctzll(bits)), hashes + block * kBlock);
    }
  }
  // Where the least value had wrapped around, the minimum is elsewhere.
  const auto missed = hn::Gt(hn::LoadU(d, k.bounds + i), limit);
  for (uint64_t bits = bits_of(d, missed); bits != 0; bits &= bits - 1) {
    const size_t at = i + static_cast<size_t>(__builtin_ctzll(bits));
    for (size_t block = 0; block < blocks; ++block) lower_block(k, at, hashes + block * kBlock);
  }
}

void mersenne32(const Mersenne32Kernel& k) {
  const size_t all = (k.hash_count + kBlock - 1) / kBlock;
  for (size_t block = 0; block < all; block += kSegmentBlocks) {
    for (size_t i = 0; i < k.padded; i += hn::Lanes(D32())) {
      lower_permutations(k, i, k.hashes + block * kBlock, std::min(kSegmentBlocks, all - block));
    }
  }
}

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

using S64 = hn::RebindToSigned<D64>;

void lower_block(const Mersenne64Kernel& k, size_t i, const uint64_t* hashes) {
  const D64 d;
  const S64 ds;
  const auto a = hn::Set(d, k.top_a[i]), b = hn::Set(d, k.top_b[i]);
  const auto bound = hn::Set(ds, k.bounds[i]);
  uint64_t least = k.minima[i];
  for (size_t at = 0; at < kBlock; at += hn::Lanes(d)) {
    const auto u = hn::BitCast(ds, hn::Add(multiply(hn::LoadU(d, hashes + at), a), b));
    for (uint64_t bits = bits_of(ds, hn::Not(hn::Gt(u, bound))); bits != 0; bits &= bits - 1) {
      const auto lane = at + static_cast<size_t>(__builtin_ctzll(bits));
      least = std::min(least, (k.a[i] * hashes[lane] + k.b[i]) % kMersenne61);
    }
  }
  k.minima[i] = least;
  k.bounds[i] = wide_bound_of(least);
}

// As of 32 bits, on the topmost ones.
void lower_permutations(const Mersenne64Kernel& k, size_t i, const uint64_t* hashes,
                        size_t blocks) {
  const D64 d;
  const S64 ds;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN int64_t least[kSegmentBlocks * kLanes / 2];
  const auto a = hn::LoadU(d, k.top_a + i), b = hn::LoadU(d, k.top_b + i);
  const auto most = hn::Set(ds, INT64_MAX);
  auto low = most;
  for (size_t block = 0; block < blocks; ++block) {
    auto in_block = most;
    for (size_t h = 0; h < kBlock; ++h) {
      const auto hash = hn::Set(d, hashes[block * kBlock + h]);
      in_block = hn::Min(in_block, hn::BitCast(ds, hn::Add(multiply(hash, a), b)));
    }
    hn::Store(in_block, ds, least + block * lanes);
    low = hn::Min(low, in_block);
  }
  const auto top = hn::Add(low, hn::Set(ds, int64_t{kSlack} << 3 | 7));
  const auto limit =
      hn::Min(hn::IfThenElse(hn::Gt(low, top), most, top), hn::LoadU(ds, k.bounds + i));
  for (size_t block = 0; block < blocks; ++block) {
    const auto above = hn::Gt(hn::Load(ds, least + block * lanes), limit);
    if (hn::AllTrue(ds, above)) continue;
    for (uint64_t bits = bits_of(ds, hn::Not(above)); bits != 0; bits &= bits - 1) {
      lower_block(k, i + static_cast<size_t>(__builtin_ctzll(bits)), hashes + block * kBlock);
    }
  }
  const auto missed = hn::Gt(hn::LoadU(ds, k.bounds + i), limit);
  for (uint64_t bits = bits_of(ds, missed); bits != 0; bits &= bits - 1) {
    const size_t at = i + static_cast<size_t>(__builtin_ctzll(bits));
    for (size_t block = 0; block < blocks; ++block) lower_block(k, at, hashes + block * kBlock);
  }
}

void mersenne64(const Mersenne64Kernel& k) {
  const size_t all = (k.hash_count + kBlock - 1) / kBlock;
  for (size_t block = 0; block < all; block += kSegmentBlocks) {
    for (size_t i = 0; i < k.count; i += hn::Lanes(D64())) {
      lower_permutations(k, i, k.hashes + block * kBlock, std::min(kSegmentBlocks, all - block));
    }
  }
}

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

// The blocks, mixed once, go into the state of every seed.
void seeded_murmur(const MurmurKernel& k) {
  const D32 d;
  const auto plus = hn::Set(d, murmur::kAdd), five = hn::Set(d, 5);
  const auto times1 = hn::Set(d, 0x85ebca6b), times2 = hn::Set(d, 0xc2b2ae35);
  for (size_t i = 0; i < k.count; i += hn::Lanes(d)) {
    const auto seed = hn::LoadU(d, k.seeds + i);
    auto least = hn::LoadU(d, k.minima + i);
    for (size_t w = 0; w < k.windows; ++w) {
      const uint32_t* mixed = k.mixed + k.starts[w];
      auto h = seed;
      for (size_t block = 0; block < k.blocks; ++block) {
        h = hn::RotateRight<19>(hn::Xor(h, hn::Set(d, mixed[4 * block])));
        h = hn::Add(hn::Mul(h, five), plus);
      }
      h = hn::Xor(h, hn::Set(d, k.last[w]));
      h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), times1);
      h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), times2);
      least = hn::Min(least, hn::Xor(h, hn::ShiftRight<16>(h)));
    }
    hn::StoreU(least, d, k.minima + i);
  }
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
