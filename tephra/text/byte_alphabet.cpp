// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/byte_alphabet.h"

#include <charconv>

#include "tephra/base/format.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr uint32_t kLastChar = 0x143;

std::array<uint16_t, 256> make_alphabet() {
  std::array<uint16_t, 256> chars{};
  uint16_t next = 0x100;
  for (uint16_t b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    chars[b] = printable ? b : next++;
  }
  return chars;
}

std::array<int16_t, kLastChar + 1> make_inverse() {
  std::array<int16_t, kLastChar + 1> bytes{};
  bytes.fill(-1);
  for (size_t b = 0; b < 256; ++b) bytes[byte_alphabet()[b]] = static_cast<int16_t>(b);
  return bytes;
}

}  // namespace

const std::array<uint16_t, 256>& byte_alphabet() {
  static const std::array<uint16_t, 256> kChars = make_alphabet();
  return kChars;
}

std::optional<std::string> bytes_of_spelling(std::string_view token) {
  static const auto kBytes = make_inverse();
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const CodePoint c = first_code_point(token.data() + at);
    if (c.value > kLastChar || kBytes[c.value] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[c.value]);
    at += c.bytes;
  }
  return bytes;
}

std::string spelling_of_bytes(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) append_utf8(out, byte_alphabet()[static_cast<unsigned char>(b)]);
  return out;
}

std::optional<uint8_t> parse_byte_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned value = 0;
  const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
  if (error != std::errc() || end != token.data() + 5) return std::nullopt;
  return static_cast<uint8_t>(value);
}

std::string byte_token(uint8_t byte) { return format("<0x{:02X}>", byte); }

}  // namespace tephra
