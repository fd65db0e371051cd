// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/unicode.h"

#include <cstring>

#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

constexpr uint8_t ascii_bits(int c) {
  if (c >= 'a' && c <= 'z') return kLetter | kLowerish | kWord;
  if (c >= 'A' && c <= 'Z') return kLetter | kUpperish | kWord;
  if (c >= '0' && c <= '9') return kNumber | kWord;
  if (c == '\r' || c == '\n') return kSpace | kNewline;
  if (c == ' ' || (c >= 0x09 && c <= 0x0c)) return kSpace;
  return c == '_' ? kWord : 0;
}

constexpr std::array<uint8_t, 128> make_ascii_bits() {
  std::array<uint8_t, 128> bits{};
  for (int c = 0; c < 128; ++c) bits[static_cast<size_t>(c)] = ascii_bits(c);
  return bits;
}

// How many ASCII bytes `text` starts with, at least in steps of eight.
size_t ascii_prefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t word; at + 8 <= text.size(); at += 8) {
    std::memcpy(&word, text.data() + at, 8);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// Bytes of the longest start of a valid sequence, at least 1: what one U+FFFD stands for.
size_t broken_sequence(std::string_view text) {
  for (size_t length = std::min<size_t>(3, text.size()); length > 1; --length) {
    if (incomplete_utf8_tail(text.substr(0, length)) == length) return length;
  }
  return 1;
}

}  // namespace

constinit const std::array<uint8_t, 128> kAsciiBits = make_ascii_bits();

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string to_utf8(uint32_t code_point) {
  std::string out;
  append_utf8(out, code_point);
  return out;
}

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  for (;;) {
    at += ascii_prefix(text.substr(at));
    if (at == text.size()) return std::string_view::npos;
    const size_t length = utf8_sequence(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
}

std::string lossy_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t bad = find_invalid_utf8(text);
    out += text.substr(0, bad);
    if (bad == std::string_view::npos) break;
    text.remove_prefix(bad);
    text.remove_prefix(broken_sequence(text));
    out += kReplacement;
  }
  return out;
}

size_t incomplete_utf8_tail(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(3, text.size()); ++length) {
    const std::string_view tail = text.substr(text.size() - length);
    const auto lead = static_cast<unsigned char>(tail[0]);
    if (lead < 0x80) return 0;
    if (lead < 0xc0) continue;
    // A start is whole when some continuation makes it valid; the first byte decides the rest, but
    // E0, ED, F0 and F4 limit the second one.
    for (const char* rest : {"\x80\x80\x80", "\xbf\xbf\xbf"}) {
      if (utf8_sequence(std::string(tail) + rest) > length) return length;
    }
    return 0;
  }
  return 0;
}

}  // namespace tephra
