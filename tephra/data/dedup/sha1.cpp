// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/sha1.h"

#include <bit>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tephra {
namespace {

using sha1_detail::kStart;

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

namespace {

#define TEPHRA_SHA __attribute__((target("sha,sse4.1"), always_inline)) inline

// One text at work; m holds the last sixteen words of the schedule, four a vector.
struct Rounds {
  __m128i abcd, e, before, abcd_start, e_start;
  __m128i m[4];
};

TEPHRA_SHA void begin_rounds(Rounds& r, const std::array<uint32_t, 5>& state,
                             const uint8_t* block) {
  const __m128i swap = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
  r.abcd = r.abcd_start = r.before =
      _mm_shuffle_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data())), 0x1b);
  r.e = r.e_start = _mm_set_epi32(static_cast<int>(state[4]), 0, 0, 0);
  for (int i = 0; i < 4; ++i) {
    r.m[i] =
        _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 16 * i)), swap);
  }
}

// Four rounds of the eighty.
template <int kGroup>
TEPHRA_SHA void four_rounds(Rounds& r) {
  if constexpr (kGroup >= 4) {
    const __m128i w = _mm_sha1msg1_epu32(r.m[kGroup % 4], r.m[(kGroup + 1) % 4]);
    r.m[kGroup % 4] =
        _mm_sha1msg2_epu32(_mm_xor_si128(w, r.m[(kGroup + 2) % 4]), r.m[(kGroup + 3) % 4]);
  }
  r.e = kGroup == 0 ? _mm_add_epi32(r.e, r.m[0]) : _mm_sha1nexte_epu32(r.before, r.m[kGroup % 4]);
  r.before = r.abcd;
  r.abcd = _mm_sha1rnds4_epu32(r.abcd, r.e, kGroup / 5);
}

TEPHRA_SHA void end_rounds(Rounds& r, std::array<uint32_t, 5>& state) {
  r.e = _mm_sha1nexte_epu32(r.before, r.e_start);
  r.abcd = _mm_add_epi32(r.abcd, r.abcd_start);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_shuffle_epi32(r.abcd, 0x1b));
  state[4] = static_cast<uint32_t>(_mm_extract_epi32(r.e, 3));
}

template <int... kGroups>
TEPHRA_SHA void all_rounds(Rounds& r, std::integer_sequence<int, kGroups...>) {
  (four_rounds<kGroups>(r), ...);
}
template <int... kGroups>
TEPHRA_SHA void all_rounds(Rounds& r, Rounds& s, std::integer_sequence<int, kGroups...>) {
  ((four_rounds<kGroups>(r), four_rounds<kGroups>(s)), ...);
}

}  // namespace

__attribute__((target("sha,sse4.1"))) void fast_block(std::array<uint32_t, 5>& state,
                                                      const uint8_t* block) {
  Rounds r;
  begin_rounds(r, state, block);
  all_rounds(r, std::make_integer_sequence<int, 20>());
  end_rounds(r, state);
}

__attribute__((target("sha,sse4.1"))) void fast_block_pair(std::array<uint32_t, 5>& a,
                                                           const uint8_t* block_a,
                                                           std::array<uint32_t, 5>& b,
                                                           const uint8_t* block_b) {
  Rounds r, s;
  begin_rounds(r, a, block_a);
  begin_rounds(s, b, block_b);
  all_rounds(r, s, std::make_integer_sequence<int, 20>());
  end_rounds(r, a);
  end_rounds(s, b);
}

#undef TEPHRA_SHA

#else

bool has_fast_block() { return false; }
void fast_block(std::array<uint32_t, 5>& state, const uint8_t* block) { plain_block(state, block); }
void fast_block_pair(std::array<uint32_t, 5>& a, const uint8_t* block_a, std::array<uint32_t, 5>& b,
                     const uint8_t* block_b) {
  plain_block(a, block_a);
  plain_block(b, block_b);
}

#endif

}  // namespace sha1_detail

namespace {

// The blocks of a text: those of its own bytes, then one or two with its end and length.
class Blocks {
 public:
  explicit Blocks(std::string_view bytes)
      : data_(reinterpret_cast<const uint8_t*>(bytes.data())), whole_(bytes.size() / 64) {
    const size_t rest = bytes.size() % 64;
    if (rest > 0) std::memcpy(tail_.data(), data_ + 64 * whole_, rest);
    tail_[rest] = 0x80;
    const size_t size = rest < 56 ? 64 : 128;
    const uint64_t bits = __builtin_bswap64(uint64_t{bytes.size()} * 8);
    std::memcpy(tail_.data() + size - 8, &bits, 8);
    count_ = whole_ + size / 64;
  }

  size_t count() const { return count_; }
  const uint8_t* operator[](size_t i) const {
    return i < whole_ ? data_ + 64 * i : tail_.data() + 64 * (i - whole_);
  }

 private:
  const uint8_t* data_;
  size_t whole_, count_;
  std::array<uint8_t, 128> tail_{};
};

}  // namespace

std::array<uint32_t, 5> sha1(std::string_view bytes) {
  static const Block kBlock = chosen_block();
  std::array<uint32_t, 5> state = kStart;
  const Blocks blocks(bytes);
  for (size_t i = 0; i < blocks.count(); ++i) kBlock(state, blocks[i]);
  return state;
}

uint32_t sha1_prefix(std::string_view bytes) { return __builtin_bswap32(sha1(bytes)[0]); }

namespace {

// Two at a time: their rounds fill each other's waits.
void prefix_pair(std::string_view a, std::string_view b, uint32_t& out_a, uint32_t& out_b) {
  const Blocks of_a(a), of_b(b);
  if (of_a.count() != of_b.count() || !sha1_detail::has_fast_block()) {
    out_a = sha1_prefix(a);
    out_b = sha1_prefix(b);
    return;
  }
  std::array<uint32_t, 5> state_a = kStart, state_b = kStart;
  for (size_t i = 0; i < of_a.count(); ++i) {
    sha1_detail::fast_block_pair(state_a, of_a[i], state_b, of_b[i]);
  }
  out_a = __builtin_bswap32(state_a[0]);
  out_b = __builtin_bswap32(state_b[0]);
}

constexpr size_t kLeastLanes = 8;  // fewer are no faster than the processor's instructions
constexpr size_t kMostBlocks = 4;  // of texts that go to lanes

size_t block_count(std::string_view text) { return (text.size() + 8) / 64 + 1; }

// Texts of one count of blocks, gathered until there is one for every lane.
class Lanes {
 public:
  void begin(size_t blocks, size_t lanes) {
    blocks_ = blocks;
    lanes_ = lanes;
    used_ = 0;
  }

  void add(std::string_view text, size_t index, uint32_t* out) {
    stage(text, used_);
    index_[used_++] = index;
    if (used_ == lanes_) flush(out);
  }

  void flush(uint32_t* out) {
    if (used_ == 0) return;
    std::array<uint32_t, sha1_detail::kMostLanes> first;
    sha1_detail::lane_prefixes(staged_.data(), blocks_, first.data());
    for (size_t i = 0; i < used_; ++i) out[index_[i]] = __builtin_bswap32(first[i]);
    used_ = 0;
  }

 private:
  uint8_t* place(size_t piece, size_t lane) {
    return staged_.data() + (4 * piece + lane % 4) * 4 * lanes_ + lane / 4 * 16;
  }

  // The text, a bit, zeros and the count of bits.
  void stage(std::string_view text, size_t lane) {
    const size_t whole = text.size() / 16, pieces = 4 * blocks_;
    for (size_t p = 0; p < whole; ++p) std::memcpy(place(p, lane), text.data() + 16 * p, 16);
    std::array<uint8_t, 16> last{};
    if (text.size() % 16 > 0) {
      std::memcpy(last.data(), text.data() + 16 * whole, text.size() % 16);
    }
    last[text.size() % 16] = 0x80;
    std::memcpy(place(whole, lane), last.data(), 16);
    for (size_t p = whole + 1; p < pieces; ++p) std::memset(place(p, lane), 0, 16);
    const uint64_t bits = __builtin_bswap64(uint64_t{text.size()} * 8);
    std::memcpy(place(pieces - 1, lane) + 8, &bits, 8);
  }

  size_t blocks_ = 0, lanes_ = 0, used_ = 0;
  alignas(64) std::array<uint8_t, 64 * kMostBlocks * sha1_detail::kMostLanes> staged_{};
  std::array<size_t, sha1_detail::kMostLanes> index_{};
};

}  // namespace

void sha1_detail::pair_prefixes(std::span<const std::string_view> texts, uint32_t* out) {
  size_t i = 0;
  for (; i + 2 <= texts.size(); i += 2) prefix_pair(texts[i], texts[i + 1], out[i], out[i + 1]);
  if (i < texts.size()) out[i] = sha1_prefix(texts[i]);
}

void sha1_prefixes(std::span<const std::string_view> texts, uint32_t* out) {
  const size_t lanes = sha1_detail::lanes();
  if (lanes < kLeastLanes) return sha1_detail::pair_prefixes(texts, out);
  std::array<Lanes, kMostBlocks> by_blocks;
  for (size_t b = 0; b < kMostBlocks; ++b) by_blocks[b].begin(b + 1, lanes);
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t blocks = block_count(texts[i]);
    if (blocks > kMostBlocks) {
      out[i] = sha1_prefix(texts[i]);
    } else {
      by_blocks[blocks - 1].add(texts[i], i, out);
    }
  }
  for (Lanes& each : by_blocks) each.flush(out);
}

}  // namespace tephra
