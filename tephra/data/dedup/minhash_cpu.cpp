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

// Hashes of this block for which permutation i could be below its minimum: few, computed in full.
void lower_one(const Mersenne32Kernel& k, size_t i, const uint32_t* hashes) {
  const D32 d;
  const auto a = hn::Set(d, k.low_a[i]);
  const auto b = hn::Set(d, k.low_b[i]);
  const auto u = hn::Add(hn::Mul(hn::LoadU(d, hashes), a), b);
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, hn::Not(hn::Gt(u, hn::Set(d, k.bounds[i]))), bytes);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  uint32_t least = k.minima[i];
  for (; bits != 0; bits &= bits - 1) {
    const auto lane = static_cast<size_t>(__builtin_ctzll(bits));
    least = std::min(least, mersenne_low(k.a[i] * hashes[lane] + k.b[i]));
  }
  k.minima[i] = least;
  k.bounds[i] = bound_of(least);
}

void mersenne32(const Mersenne32Kernel& k) {
  const D32 d;
  const size_t lanes = hn::Lanes(d);
  for (size_t block = 0; block < k.hash_count; block += lanes) {
    const uint32_t* hashes = k.hashes + block;
    for (size_t i = 0; i < k.padded; i += lanes) {
      const auto a = hn::LoadU(d, k.low_a + i);
      const auto b = hn::LoadU(d, k.low_b + i);
      auto least = hn::Set(d, UINT32_MAX);
      for (size_t h = 0; h < lanes; ++h) {
        least = hn::Min(least, hn::Add(hn::Mul(hn::Set(d, hashes[h]), a), b));
      }
      const auto above = hn::Gt(least, hn::LoadU(d, k.bounds + i));
      if (hn::AllTrue(d, above)) [[likely]]
        continue;
      uint8_t bytes[8] = {};
      hn::StoreMaskBits(d, hn::Not(above), bytes);
      uint64_t bits = 0;
      std::memcpy(&bits, bytes, sizeof bits);
      for (; bits != 0; bits &= bits - 1) {
        lower_one(k, i + static_cast<size_t>(__builtin_ctzll(bits)), hashes);
      }
    }
  }
}

// a h mod 2^64 by halves; h_low and h_high hold the halves of one hash in all lanes.
template <class V>
HWY_INLINE V multiply(V a_low, V a_high, V h_low, V h_high) {
  const D32 d32;
  const auto product = [&](V x, V y) HWY_ATTR {
    return hn::MulEven(hn::BitCast(d32, x), hn::BitCast(d32, y));
  };
  const auto cross = hn::Add(product(a_high, h_low), product(a_low, h_high));
  return hn::Add(product(a_low, h_low), hn::ShiftLeft<32>(cross));
}

void mersenne64(const Mersenne64Kernel& k) {
  const D64 d;
  const hn::RebindToSigned<D64> ds;  // all values are below 2^61
  const auto prime = hn::Set(d, kMersenne61);
  const auto one = hn::Set(d, 1);
  for (size_t i = 0; i < k.count; i += hn::Lanes(d)) {
    const auto a = hn::LoadU(d, k.a + i), b = hn::LoadU(d, k.b + i);
    const auto a_high = hn::ShiftRight<32>(a);
    auto least = hn::Set(ds, static_cast<int64_t>(kMersenne61));
    for (size_t h = 0; h < k.hash_count; ++h) {
      const auto low = hn::Set(d, k.hashes[h]), high = hn::Set(d, k.hashes[h] >> 32);
      const auto v = hn::Add(multiply(a, a_high, low, high), b);
      // Modulo 2^61 - 1: the parts above and below bit 61 added, once more when that reaches it.
      const auto r = hn::Add(hn::And(v, prime), hn::ShiftRight<61>(v));
      const auto folded = hn::And(hn::Add(r, hn::ShiftRight<61>(hn::Add(r, one))), prime);
      least = hn::Min(least, hn::BitCast(ds, folded));
    }
    hn::StoreU(hn::BitCast(d, least), d, k.minima + i);
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

// The window's blocks, mixed once, go into the state of every seed.
void seeded_murmur(const MurmurKernel& k) {
  const D32 d;
  const auto times5_plus = [&](auto h) HWY_ATTR {
    return hn::Add(hn::Add(hn::ShiftLeft<2>(h), h), hn::Set(d, murmur::kAdd));
  };
  for (size_t i = 0; i < k.count; i += hn::Lanes(d)) {
    auto h = hn::LoadU(d, k.seeds + i);
    for (size_t block = 0; block < k.blocks; ++block) {
      h = times5_plus(hn::RotateRight<19>(hn::Xor(h, hn::Set(d, k.mixed[block]))));
    }
    h = hn::Xor(h, hn::Set(d, k.last));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(d, 0x85ebca6b));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(d, 0xc2b2ae35));
    h = hn::Xor(h, hn::ShiftRight<16>(h));
    hn::StoreU(hn::Min(h, hn::LoadU(d, k.minima + i)), d, k.minima + i);
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

void run(const Mersenne32Kernel& k) { HWY_DYNAMIC_DISPATCH(mersenne32)(k); }
void run(const Mersenne64Kernel& k) { HWY_DYNAMIC_DISPATCH(mersenne64)(k); }
void run(const Native32Kernel& k) { HWY_DYNAMIC_DISPATCH(native32)(k); }
void run(const MurmurKernel& k) { HWY_DYNAMIC_DISPATCH(seeded_murmur)(k); }

}  // namespace tephra::minhash
#endif
