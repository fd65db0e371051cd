// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/sha.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include "tephra/base/error.h"

namespace tephra {
namespace {

// Fractions of the cube roots of the first 64 primes.
alignas(16) constexpr uint32_t kSha256[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const unsigned char* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

void sha1_block(std::array<uint32_t, 8>& state, const unsigned char* block) {
  uint32_t w[80];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; ++i) {
    const uint32_t f = i < 20   ? (b & c) | (~b & d)
                       : i < 40 ? b ^ c ^ d
                       : i < 60 ? (b & c) | (b & d) | (c & d)
                                : b ^ c ^ d;
    const uint32_t k = i < 20   ? 0x5a827999u
                       : i < 40 ? 0x6ed9eba1u
                       : i < 60 ? 0x8f1bbcdcu
                                : 0xca62c1d6u;
    const uint32_t next = std::rotl(a, 5) + f + e + k + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const uint32_t add[5] = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) state[i] += add[i];
}

void sha256_block(std::array<uint32_t, 8>& state, const unsigned char* block) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  std::array<uint32_t, 8> v = state;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(v[4], 6) ^ std::rotr(v[4], 11) ^ std::rotr(v[4], 25);
    const uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
    const uint32_t t1 = v[7] + s1 + choice + kSha256[i] + w[i];
    const uint32_t s0 = std::rotr(v[0], 2) ^ std::rotr(v[0], 13) ^ std::rotr(v[0], 22);
    const uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
    std::rotate(v.begin(), v.end() - 1, v.end());
    v[4] += t1;
    v[0] = t1 + s0 + majority;
  }
  for (size_t i = 0; i < 8; ++i) state[i] += v[i];
}

#if defined(__x86_64__)

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1u << 29)) != 0;
}

__m128i load_four(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }

// Four rounds an instruction pair; a checkpoint's bytes are hashed as fast as a disk brings them.
__attribute__((target("sha,sse4.1"))) void sha256_fast(std::array<uint32_t, 8>& state,
                                                       const unsigned char* bytes, size_t blocks) {
  const __m128i order = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the words as ABEF and CDGH.
  const __m128i cdab = _mm_shuffle_epi32(load_four(&state[0]), 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(load_four(&state[4]), 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);
  for (; blocks > 0; --blocks, bytes += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) w[i] = _mm_shuffle_epi8(load_four(bytes + 16 * i), order);
    for (int i = 0; i < 16; ++i) {
      const __m128i now = w[i % 4];
      __m128i sum = _mm_add_epi32(now, load_four(kSha256 + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      sum = _mm_shuffle_epi32(sum, 0x0e);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
      const __m128i newest = w[(i + 3) % 4];
      const __m128i seventh = _mm_alignr_epi8(newest, w[(i + 2) % 4], 4);
      const __m128i mixed = _mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), seventh);
      w[i % 4] = _mm_sha256msg2_epu32(mixed, newest);  // sixteen words later
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

void sha256_blocks(std::array<uint32_t, 8>& state, const unsigned char* bytes, size_t blocks) {
#if defined(__x86_64__)
  static const bool fast = has_sha_instructions();
  if (fast) return sha256_fast(state, bytes, blocks);
#endif
  for (size_t i = 0; i < blocks; ++i) sha256_block(state, bytes + 64 * i);
}

}  // namespace

Sha::Sha(ShaKind kind) : kind_(kind) {
  held_.fill(0);
  if (kind == ShaKind::sha1) {
    state_ = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0, 0, 0, 0};
  } else {
    state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
              0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  }
}

void Sha::add_blocks(const unsigned char* bytes, size_t count) {
  if (kind_ == ShaKind::sha256) return sha256_blocks(state_, bytes, count);
  for (size_t i = 0; i < count; ++i) sha1_block(state_, bytes + 64 * i);
}

void Sha::add(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t left = bytes.size();
  const size_t held = bytes_ % 64;
  bytes_ += left;
  if (held > 0) {
    const size_t taken = std::min(left, 64 - held);
    std::memcpy(held_.data() + held, data, taken);
    if (held + taken < 64) return;
    add_blocks(held_.data(), 1);
    data += taken;
    left -= taken;
  }
  add_blocks(data, left / 64);
  if (left % 64 > 0) std::memcpy(held_.data(), data + left / 64 * 64, left % 64);
}

std::string Sha::finish() {
  const uint64_t bits = 8 * bytes_;
  std::string tail = "\x80";
  tail.append((119 - bytes_ % 64) % 64, '\0');
  for (int i = 7; i >= 0; --i) tail += static_cast<char>(bits >> (8 * i) & 0xff);
  add(tail);
  TEPHRA_ASSERT(bytes_ % 64 == 0, "the padding fills the last block");
  std::string raw;
  for (size_t i = 0; i < (kind_ == ShaKind::sha1 ? 5u : 8u); ++i) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      raw += static_cast<char>(state_[i] >> shift & 0xff);
    }
  }
  return raw;
}

std::string sha256(std::string_view text) {
  Sha sha(ShaKind::sha256);
  sha.add(text);
  return sha.finish();
}

std::string hex_text(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string base64_text(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k) {
      const auto byte = i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u;
      three = three << 8 | byte;
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

}  // namespace tephra
