// SPDX-License-Identifier: Apache-2.0
// UTF-8 and the Unicode properties that tokenizers ask for. The tables are utf8proc's (Unicode 15).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tephra {

struct CodePoint {
  uint32_t value;
  uint32_t bytes;
};

// The first character of valid, non-empty UTF-8.
inline CodePoint first_code_point(const char* p) {
  const auto byte = [p](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  const uint32_t b = byte(0);
  if (b < 0x80) return {b, 1};
  if (b < 0xe0) return {(b & 0x1f) << 6 | (byte(1) & 0x3f), 2};
  if (b < 0xf0) return {(b & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f), 3};
  return {(b & 0x07) << 18 | (byte(1) & 0x3f) << 12 | (byte(2) & 0x3f) << 6 | (byte(3) & 0x3f), 4};
}

void append_utf8(std::string& out, uint32_t code_point);
std::string to_utf8(uint32_t code_point);

// Where the first byte that is not UTF-8 lies; npos when there is none.
size_t find_invalid_utf8(std::string_view text);

// The text, with U+FFFD for each broken sequence (the longest start of a valid one, else one byte),
// as Python's errors="replace" and browsers do.
std::string lossy_utf8(std::string_view text);

// Bytes at the end of `text` that are the beginning of a character whose rest is missing.
size_t incomplete_utf8_tail(std::string_view text);

// Bits of what split patterns distinguish.
constexpr uint8_t kLetter = 1;     // \p{L}
constexpr uint8_t kNumber = 2;     // \p{N}
constexpr uint8_t kSpace = 4;      // White_Space
constexpr uint8_t kNewline = 8;    // CR and LF
constexpr uint8_t kUpperish = 16;  // Lu Lt Lm Lo M
constexpr uint8_t kLowerish = 32;  // Ll Lm Lo M
constexpr uint8_t kWord = 64;      // \w: letters, marks, decimal digits, connectors

extern const std::array<uint8_t, 128> kAsciiBits;
uint8_t wide_char_bits(uint32_t code_point);  // of any but ASCII

inline uint8_t char_bits(uint32_t code_point) {
  return code_point < 128 ? kAsciiBits[code_point] : wide_char_bits(code_point);
}

// The simple lower case of a character: itself when it has none.
uint32_t lower_code_point(uint32_t code_point);

bool is_decimal_digit(uint32_t code_point);   // Nd
bool is_combining_mark(uint32_t code_point);  // Mn

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// The text in that form: itself when it already is, else held by `scratch`. Valid UTF-8 only.
std::string_view normalized(std::string_view text, NormalForm form, std::string& scratch);

}  // namespace tephra
