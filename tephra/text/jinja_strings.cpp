// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_strings.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "tephra/base/text.h"
#include "tephra/text/jinja_budget.h"

namespace tephra::jinja {
namespace {

char32_t decode(std::string_view text, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (length == 1) return byte(0);
  char32_t c = byte(0) & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) c = (c << 6) | (byte(i) & 0x3fu);
  return c;
}

// The code point a text starts with and its bytes; a byte that is not UTF-8 counts as U+FFFD.
char32_t first_code_point(std::string_view text, size_t& length) {
  length = utf8_sequence(text);
  if (length > 0) return decode(text, length);
  length = 1;
  return 0xfffd;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

size_t last_begin(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0u) == 0x80u) --at;
  return at;
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  for (size_t length = 0; !text.empty(); text.remove_prefix(length)) {
    points += first_code_point(text, length);
  }
  return points;
}

void append_code_point(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0u | (c >> 6));
    put(0x80u | (c & 0x3fu));
  } else if (c < 0x10000) {
    put(0xe0u | (c >> 12));
    put(0x80u | ((c >> 6) & 0x3fu));
    put(0x80u | (c & 0x3fu));
  } else {
    put(0xf0u | (c >> 18));
    put(0x80u | ((c >> 12) & 0x3fu));
    put(0x80u | ((c >> 6) & 0x3fu));
    put(0x80u | (c & 0x3fu));
  }
}

std::string utf8(std::u32string_view points) {
  std::string out;
  out.reserve(points.size());
  for (const char32_t c : points) append_code_point(out, c);
  return out;
}

int64_t count_code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xc0u) != 0x80u; });
}

size_t byte_offset(std::string_view text, int64_t code_point) {
  size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xc0u) != 0x80u && code_point-- == 0) return at;
  }
  return at;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 ||
         c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

std::string_view stripped(std::string_view text, const std::string* characters, bool left,
                          bool right) {
  std::u32string set = characters != nullptr ? code_points(*characters) : std::u32string();
  std::sort(set.begin(), set.end());
  const auto goes = [&](char32_t c) {
    return characters != nullptr ? std::binary_search(set.begin(), set.end(), c)
                                 : is_white_space(c);
  };
  size_t length = 0;
  while (left && !text.empty() && goes(first_code_point(text, length))) text.remove_prefix(length);
  while (right && !text.empty()) {
    const size_t begin = last_begin(text);
    if (!goes(first_code_point(text.substr(begin), length))) break;
    text = text.substr(0, begin);
  }
  return text;
}

std::string_view stripped_left(std::string_view text) {
  return stripped(text, nullptr, true, false);
}
std::string_view stripped_right(std::string_view text) {
  return stripped(text, nullptr, false, true);
}

size_t find_part(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     int64_t count) {
  std::string out;
  size_t at = 0;
  while (count != 0) {
    size_t found = find_part(text, from, at);
    if (found == text.npos) break;
    out.append(text, at, found - at);
    out += to;
    --count;
    at = found + from.size();
    if (from.empty()) {  // between all code points, and at both ends
      if (found == text.size()) return out;
      size_t length = 0;
      first_code_point(text.substr(found), length);
      out.append(text, found, length);
      at = found + length;
    }
  }
  return out.append(text, std::min(at, text.size()));
}

int64_t count_part(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  int64_t count = 0;
  for (size_t at = 0; (at = find_part(text, part, at)) != text.npos; at += part.size()) ++count;
  return count;
}

std::vector<std::string_view> split_at(std::string_view text, std::string_view separator,
                                       int64_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  while (limit-- != 0) {
    const size_t at = from_right ? text.rfind(separator) : find_part(text, separator);
    if (at == text.npos) break;
    const std::string_view behind = text.substr(at + separator.size());
    parts.push_back(from_right ? behind : text.substr(0, at));
    text = from_right ? text.substr(0, at) : behind;
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_words(std::string_view text, int64_t limit, bool from_right) {
  std::vector<std::string_view> words;
  text = stripped(text, nullptr, !from_right, from_right);
  while (!text.empty()) {
    if (limit-- == 0) {
      words.push_back(text);
      break;
    }
    if (from_right) {
      size_t begin = text.size(), length = 0;
      while (begin > 0) {
        const size_t before = last_begin(text.substr(0, begin));
        if (is_white_space(first_code_point(text.substr(before), length))) break;
        begin = before;
      }
      words.push_back(text.substr(begin));
      text = stripped_right(text.substr(0, begin));
    } else {
      size_t end = 0, length = 0;
      while (end < text.size() && !is_white_space(first_code_point(text.substr(end), length))) {
        end += length;
      }
      words.push_back(text.substr(0, end));
      text = stripped_left(text.substr(end));
    }
  }
  if (from_right) std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0, at = 0, length = 0;
  while (at < text.size()) {
    const char32_t c = first_code_point(text.substr(at), length);
    const size_t end = at;
    at += length;
    if (!is_line_end(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  const bool plain = value == 0 || (size >= 1e-4 && size < 1e16);
  char buffer[64];
  const auto shape = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value, shape).ptr);
  if (plain && text.find('.') == text.npos) text += ".0";
  return text;
}

std::optional<double> parse_float(std::string_view text) {
  std::string plain(stripped(text, nullptr, true, true));
  for (size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] != '_') continue;
    const auto digit = [&](size_t at) {
      return at < plain.size() && plain[at] >= '0' && plain[at] <= '9';
    };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  std::erase(plain, '_');
  const bool negative = plain.starts_with('-');
  std::string_view digits = plain;
  if (negative || plain.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (problem == std::errc::result_out_of_range) {  // too large, or too small to tell from 0
    const size_t mark = digits.find_first_of("eE");
    const bool tiny = (mark != digits.npos && digits.substr(mark + 1).starts_with('-')) ||
                      digits.starts_with("0") || digits.starts_with(".");
    value = tiny ? 0 : HUGE_VAL;
  } else if (problem != std::errc()) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  std::string plain(stripped(text, nullptr, true, true));
  const bool negative = plain.starts_with('-');
  if (negative || plain.starts_with('+')) plain.erase(0, 1);
  const auto prefixed = [&](char mark) {
    return plain.size() > 2 && plain[0] == '0' && (plain[1] | 0x20) == mark;
  };
  for (const auto& [mark, of_mark] : {std::pair{'x', 16}, {'o', 8}, {'b', 2}}) {
    if (prefixed(mark) && (base == of_mark || base == 0)) {
      plain.erase(0, plain[2] == '_' ? 3 : 2);
      base = of_mark;
    }
  }
  if (base == 0) {
    const bool padded = plain.size() > 1 && plain[0] == '0';
    if (padded && plain.find_first_not_of("0_") != plain.npos) return std::nullopt;
    base = 10;
  }
  if (base < 2 || base > 36) return std::nullopt;
  if (plain.empty() || plain[0] == '_' || plain.back() == '_') return std::nullopt;
  if (plain.find("__") != plain.npos || plain[0] == '-' || plain[0] == '+') return std::nullopt;
  std::erase(plain, '_');
  if (negative) plain.insert(0, 1, '-');
  int64_t value = 0;
  const auto [end, problem] =
      std::from_chars(plain.data(), plain.data() + plain.size(), value, static_cast<int>(base));
  if (end != plain.data() + plain.size()) return std::nullopt;
  if (problem == std::errc::result_out_of_range) {
    fail("the integer {} does not fit 64 bits", clipped(plain, 60));
  }
  if (problem != std::errc()) return std::nullopt;
  return value;
}

}  // namespace tephra::jinja
