// SPDX-License-Identifier: Apache-2.0
// MurmurHash3_x86_32 (Appleby, 2011; public domain algorithm).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tephra {

namespace murmur {
inline constexpr uint32_t kC1 = 0xcc9e2d51, kC2 = 0x1b873593, kAdd = 0xe6546b64;

inline uint32_t mix_block(uint32_t k) { return std::rotl(k * kC1, 15) * kC2; }

inline uint32_t finish(uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6b;
  h ^= h >> 13;
  h *= 0xc2b2ae35;
  return h ^ h >> 16;
}
}  // namespace murmur

inline uint32_t murmur3(std::string_view bytes, uint32_t seed) {
  uint32_t h = seed;
  size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    uint32_t k = 0;
    std::memcpy(&k, bytes.data() + at, 4);
    h = std::rotl(h ^ murmur::mix_block(k), 13) * 5 + murmur::kAdd;
  }
  if (at < bytes.size()) {
    uint32_t k = 0;
    std::memcpy(&k, bytes.data() + at, bytes.size() - at);
    h ^= murmur::mix_block(k);
  }
  return murmur::finish(h ^ static_cast<uint32_t>(bytes.size()));
}

}  // namespace tephra
