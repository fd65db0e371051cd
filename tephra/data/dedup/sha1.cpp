// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/sha1.h"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tephra {
namespace {

constexpr std::array<uint32_t, 5> kStart = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476,
                                            0xc3d2e1f0};

using Block = void (*)(std::array<uint32_t, 5>&, const uint8_t*);

Block chosen_block() {
  return sha1_detail::has_fast_block() ? sha1_detail::fast_block : sha1_detail::plain_block;
}

uint32_t load_big(const uint8_t* p) {
  uint32_t word = 0;
  std::memcpy(&word, p, 4);
  return __builtin_bswap32(word);
}

}  // namespace

namespace sha1_detail {

void plain_block(std::array<uint32_t, 5>& state, const uint8_t* block) {
  std::array<uint32_t, 80> w;
  for (size_t t = 0; t < 16; ++t) w[t] = load_big(block + 4 * t);
  for (size_t t = 16; t < 80; ++t) {
    w[t] = std::rotl(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
  }
  auto [a, b, c, d, e] = state;
  for (size_t t = 0; t < 80; ++t) {
    const uint32_t f = t < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                       : t < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                       : t < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                : (b ^ c ^ d) + 0xca62c1d6;
    const uint32_t next = std::rotl(a, 5) + f + e + w[t];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d, state[4] + e};
}

#if defined(__x86_64__)

bool has_fast_block() {
  static const bool kHas = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;
  }();
  return kHas;
}

// Twenty groups of four rounds; m holds the last sixteen words of the schedule, four a vector.
__attribute__((target("sha,sse4.1"))) void fast_block(std::array<uint32_t, 5>& state,
                                                      const uint8_t* block) {
  const __m128i swap = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
  __m128i abcd =
      _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data())), 0x1b);
  __m128i e = _mm_set_epi32(static_cast<int>(state[4]), 0, 0, 0);
  const __m128i abcd_start = abcd, e_start = e;
  __m128i m[4];
  for (int i = 0; i < 4; ++i) {
    m[i] =
        _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * i)), swap);
  }
  __m128i before = abcd;
#pragma GCC unroll 20
  for (int group = 0; group < 20; ++group) {
    if (group >= 4) {
      const __m128i w = _mm_sha1msg1_epu32(m[group % 4], m[(group + 1) % 4]);
      m[group % 4] = _mm_sha1msg2_epu32(_mm_xor_si128(w, m[(group + 2) % 4]), m[(group + 3) % 4]);
    }
    e = group == 0 ? _mm_add_epi32(e, m[0]) : _mm_sha1nexte_epu32(before, m[group % 4]);
    before = abcd;
    switch (group / 5) {
      case 0:
        abcd = _mm_sha1rnds4_epu32(abcd, e, 0);
        break;
      case 1:
        abcd = _mm_sha1rnds4_epu32(abcd, e, 1);
        break;
      case 2:
        abcd = _mm_sha1rnds4_epu32(abcd, e, 2);
        break;
      default:
        abcd = _mm_sha1rnds4_epu32(abcd, e, 3);
    }
  }
  e = _mm_sha1nexte_epu32(before, e_start);
  abcd = _mm_add_epi32(abcd, abcd_start);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_shuffle_epi32(abcd, 0x1b));
  state[4] = static_cast<uint32_t>(_mm_extract_epi32(e, 3));
}

#else

bool has_fast_block() { return false; }
void fast_block(std::array<uint32_t, 5>& state, const uint8_t* block) { plain_block(state, block); }

#endif

}  // namespace sha1_detail

std::array<uint32_t, 5> sha1(std::string_view bytes) {
  static const Block kBlock = chosen_block();
  std::array<uint32_t, 5> state = kStart;
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t at = 0;
  for (; at + 64 <= bytes.size(); at += 64) kBlock(state, data + at);
  std::array<uint8_t, 128> tail{};
  const size_t rest = bytes.size() - at;
  if (rest > 0) std::memcpy(tail.data(), data + at, rest);
  tail[rest] = 0x80;
  const size_t size = rest < 56 ? 64 : 128;
  const uint64_t bits = __builtin_bswap64(uint64_t{bytes.size()} * 8);
  std::memcpy(tail.data() + size - 8, &bits, 8);
  for (size_t i = 0; i < size; i += 64) kBlock(state, tail.data() + i);
  return state;
}

uint32_t sha1_prefix(std::string_view bytes) { return __builtin_bswap32(sha1(bytes)[0]); }

}  // namespace tephra
