// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/words.h"

#include <bit>
#include <cstring>

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

CodePoint at_byte(std::string_view text, size_t i) {
  const auto byte = static_cast<unsigned char>(text[i]);
  return byte < 0x80 ? CodePoint{byte, 1} : first_code_point(text.data() + i);
}

bool joins(uint32_t c) { return c == '\'' || c == '-' || c == 0x2019; }

// Ends a word whatever follows it: ASCII that neither belongs to words nor joins them.
bool is_ascii_end(char c) { return static_cast<unsigned char>(c) < 0x80 && c != '\'' && c != '-'; }

bool is_word(uint32_t c) { return (char_bits(c) & (kWord | kNumber)) != 0; }

// Letters, digits and underscores of ASCII from `i` on; the bits of all of them.
uint8_t skip_ascii_word(std::string_view text, size_t& i) {
  uint8_t all = 0;
  for (; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80) break;
    const uint8_t bits = kAsciiBits[byte];
    if ((bits & (kWord | kNumber)) == 0) break;
    all |= bits;
  }
  return all;
}

// From a word character to the end of its word.
TextWord read_word(std::string_view text, size_t begin) {
  TextWord word;
  size_t i = begin;
  while (i < text.size()) {
    const size_t before = i;
    word.alphabetic |= (skip_ascii_word(text, i) & kLetter) != 0;
    word.chars += static_cast<uint32_t>(i - before);
    if (i == text.size() || is_ascii_end(text[i])) break;
    const CodePoint c = at_byte(text, i);
    if (joins(c.value)) {
      const size_t after = i + c.bytes;
      if (i == begin || after >= text.size()) break;
      const CodePoint next = at_byte(text, after);
      if (!is_word(next.value) || is_unspaced(next.value)) break;
    } else if (!is_word(c.value)) {
      break;
    } else if (is_unspaced(c.value)) {
      if (i > begin) break;
      word.alphabetic = true;
      ++word.chars;
      i += c.bytes;
      // Marks belong to the character before them.
      while (i < text.size() && is_combining_mark(at_byte(text, i).value)) {
        i += at_byte(text, i).bytes;
        ++word.chars;
      }
      break;
    }
    word.alphabetic |= (char_bits(c.value) & kLetter) != 0;
    ++word.chars;
    i += c.bytes;
  }
  word.text = text.substr(begin, i - begin);
  return word;
}

TextWord read_symbol(std::string_view text, size_t begin) {
  TextWord word;
  word.symbol = true;
  size_t end = begin + at_byte(text, begin).bytes;
  if (text[begin] == '.') {
    while (end < text.size() && text[end] == '.') ++end;
    word.chars = static_cast<uint32_t>(end - begin);
  } else {
    word.chars = 1;
  }
  word.text = text.substr(begin, end - begin);
  return word;
}

}  // namespace

bool is_unspaced(uint32_t c) {
  if (c < 0xe00) return false;
  return (c >= 0xe00 && c <= 0xeff) || (c >= 0x1000 && c <= 0x109f) ||
         (c >= 0x1780 && c <= 0x17ff) || (c >= 0x2e80 && c <= 0x2fdf) ||
         (c >= 0x3005 && c <= 0x3007) || (c >= 0x3021 && c <= 0x30ff) ||
         (c >= 0x31f0 && c <= 0x31ff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x4e00 && c <= 0x9fff) || (c >= 0xf900 && c <= 0xfaff) ||
         (c >= 0xff66 && c <= 0xff9f) || (c >= 0x20000 && c <= 0x3ffff);
}

void split_words(std::string_view text, std::vector<TextWord>& words) {
  words.clear();
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = at_byte(text, i);
    if (char_bits(c.value) & kSpace) {
      i += c.bytes;
      continue;
    }
    words.push_back(is_word(c.value) ? read_word(text, i) : read_symbol(text, i));
    i += words.back().text.size();
  }
}

int64_t count_code_points(std::string_view utf8) {
  int64_t continuation = 0;  // bytes 10xxxxxx, eight at a time
  size_t i = 0;
  for (uint64_t word = 0; i + 8 <= utf8.size(); i += 8) {
    std::memcpy(&word, utf8.data() + i, 8);
    continuation += std::popcount(word & ~(word << 1) & 0x8080808080808080);
  }
  for (; i < utf8.size(); ++i) {
    continuation += (static_cast<unsigned char>(utf8[i]) & 0xc0) == 0x80;
  }
  return static_cast<int64_t>(utf8.size()) - continuation;
}

void split_lines(std::string_view text, std::vector<std::string_view>& lines) {
  lines.clear();
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace tephra
