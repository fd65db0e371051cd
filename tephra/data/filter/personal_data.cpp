// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/personal_data.h"

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_domain(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; }
bool is_local(char c) { return is_domain(c) || c == '_' || c == '%' || c == '+'; }

// Whether a word character stands before the byte at `i` (or at it).
bool word_at(std::string_view text, size_t i) {
  if (i >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[i]);
  if (byte < 0x80) return (kAsciiBits[byte] & kWord) != 0;
  return (char_bits(first_code_point(text.data() + i).value) & (kLetter | kNumber)) != 0;
}
bool word_before(std::string_view text, size_t i) {
  if (i == 0) return false;
  do --i;
  while (i > 0 && (static_cast<unsigned char>(text[i]) & 0xc0) == 0x80);
  return word_at(text, i);
}
bool boundary(std::string_view text, size_t i) { return word_before(text, i) != word_at(text, i); }

// The end of a match whose @ is at `at`; 0 when there is none. Takes the longest, as a greedy
// pattern does.
size_t domain_end(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && is_domain(text[end])) ++end;
  for (size_t dot = end; dot-- > at + 2;) {
    if (text[dot] != '.') continue;
    size_t last = dot + 1;
    while (last < text.size() && (is_letter(text[last]) || text[last] == '|')) ++last;
    for (; last >= dot + 3; --last) {
      if (boundary(text, last)) return last;
    }
  }
  return 0;
}

// The end of a number of 0 to 255 without more than three digits; `i` itself when there is none.
// As the pattern's alternatives try them: 250-255, 200-249, then up to three digits below 200.
size_t octet_end(std::string_view text, size_t i) {
  const auto digit = [&](size_t k) { return k < text.size() && is_digit(text[k]); };
  if (!digit(i)) return i;
  if (digit(i + 1) && digit(i + 2)) {
    const int value = (text[i] - '0') * 100 + (text[i + 1] - '0') * 10 + (text[i + 2] - '0');
    if (value <= 255) return i + 3;
  }
  return digit(i + 1) ? i + 2 : i + 1;
}

size_t ipv4_end(std::string_view text, size_t i) {
  for (int part = 0; part < 4; ++part) {
    const size_t end = octet_end(text, i);
    if (end == i) return 0;
    if (part == 3) return end;
    if (end >= text.size() || text[end] != '.') return 0;
    i = end + 1;
  }
  return 0;
}

}  // namespace

int64_t count_mail_addresses(std::string_view text) {
  int64_t found = 0;
  size_t free = 0;  // nothing before this may be used again
  for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    size_t begin = at;
    while (begin > free && is_local(text[begin - 1])) --begin;
    while (begin < at && !boundary(text, begin)) ++begin;
    if (begin == at) continue;
    if (const size_t end = domain_end(text, at)) {
      ++found;
      free = end;
      at = end - 1;
    }
  }
  return found;
}

int64_t count_ipv4(std::string_view text) {
  int64_t found = 0;
  size_t free = 0;
  for (size_t dot = text.find('.'); dot != std::string_view::npos; dot = text.find('.', dot + 1)) {
    if (dot == free || !is_digit(text[dot - 1])) continue;
    // A match whose first dot is this one begins at most three digits before it; the first start
    // that works is the leftmost match.
    size_t begin = dot;
    while (begin > free && dot - begin < 3 && is_digit(text[begin - 1])) --begin;
    for (; begin < dot; ++begin) {
      if (octet_end(text, begin) != dot) continue;
      if (const size_t end = ipv4_end(text, begin)) {
        ++found;
        free = end;
        dot = end - 1;
        break;
      }
    }
  }
  return found;
}

}  // namespace tephra
