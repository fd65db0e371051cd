// SPDX-License-Identifier: Apache-2.0
// The part of jinja_strings.h that needs Unicode's tables: case, classes, and repr().
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "tephra/base/text.h"
#include "tephra/text/jinja_budget.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool in(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  return category(c) >= first && category(c) <= last;
}

bool is_alpha(char32_t c) { return in(c, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LO); }
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_number(char32_t c) { return in(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO); }

// Superscripts, subscripts and circled digits, which have a digit's value but are no decimals.
bool is_digit(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 16> kRanges = {{{0xb2, 0xb3},
                                                                      {0xb9, 0xb9},
                                                                      {0x1369, 0x1371},
                                                                      {0x19da, 0x19da},
                                                                      {0x2070, 0x2070},
                                                                      {0x2074, 0x2079},
                                                                      {0x2080, 0x2089},
                                                                      {0x2460, 0x2468},
                                                                      {0x2474, 0x247c},
                                                                      {0x2488, 0x2490},
                                                                      {0x24ea, 0x24ea},
                                                                      {0x24f5, 0x24fd},
                                                                      {0x24ff, 0x24ff},
                                                                      {0x2776, 0x277e},
                                                                      {0x2780, 0x2788},
                                                                      {0x278a, 0x2792}}};
  return is_decimal(c) || std::any_of(kRanges.begin(), kRanges.end(), [c](const auto& range) {
           return c >= range.first && c <= range.second;
         });
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const utf8proc_category_t kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN && !(kind >= UTF8PROC_CATEGORY_ZS);
}

bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba; }
bool is_title(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LT; }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || is_title(c); }

// Characters whose capital form is more than one character (Unicode's SpecialCasing): the capital
// and, where it differs, the title form.
struct LongCase {
  char32_t from;
  const char32_t* upper;
  const char32_t* title;
};

constexpr LongCase kLongCases[] = {
    {0xdf, U"SS", U"Ss"},
    {0x149, U"\u02bcN", U"\u02bcN"},
    {0x1f0, U"J\u030c", U"J\u030c"},
    {0x390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x3b0, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    {0x587, U"\u0535\u0552", U"\u0535\u0582"},
    {0x1e96, U"H\u0331", U"H\u0331"},
    {0x1e97, U"T\u0308", U"T\u0308"},
    {0x1e98, U"W\u030a", U"W\u030a"},
    {0x1e99, U"Y\u030a", U"Y\u030a"},
    {0x1e9a, U"A\u02be", U"A\u02be"},
    {0x1f50, U"\u03a5\u0313", U"\u03a5\u0313"},
    {0x1f52, U"\u03a5\u0313\u0300", U"\u03a5\u0313\u0300"},
    {0x1f54, U"\u03a5\u0313\u0301", U"\u03a5\u0313\u0301"},
    {0x1f56, U"\u03a5\u0313\u0342", U"\u03a5\u0313\u0342"},
    {0x1f80, U"\u1f08\u0399", U"\u1f88"},
    {0x1f81, U"\u1f09\u0399", U"\u1f89"},
    {0x1f82, U"\u1f0a\u0399", U"\u1f8a"},
    {0x1f83, U"\u1f0b\u0399", U"\u1f8b"},
    {0x1f84, U"\u1f0c\u0399", U"\u1f8c"},
    {0x1f85, U"\u1f0d\u0399", U"\u1f8d"},
    {0x1f86, U"\u1f0e\u0399", U"\u1f8e"},
    {0x1f87, U"\u1f0f\u0399", U"\u1f8f"},
    {0x1f88, U"\u1f08\u0399", U"\u1f88"},
    {0x1f89, U"\u1f09\u0399", U"\u1f89"},
    {0x1f8a, U"\u1f0a\u0399", U"\u1f8a"},
    {0x1f8b, U"\u1f0b\u0399", U"\u1f8b"},
    {0x1f8c, U"\u1f0c\u0399", U"\u1f8c"},
    {0x1f8d, U"\u1f0d\u0399", U"\u1f8d"},
    {0x1f8e, U"\u1f0e\u0399", U"\u1f8e"},
    {0x1f8f, U"\u1f0f\u0399", U"\u1f8f"},
    {0x1f90, U"\u1f28\u0399", U"\u1f98"},
    {0x1f91, U"\u1f29\u0399", U"\u1f99"},
    {0x1f92, U"\u1f2a\u0399", U"\u1f9a"},
    {0x1f93, U"\u1f2b\u0399", U"\u1f9b"},
    {0x1f94, U"\u1f2c\u0399", U"\u1f9c"},
    {0x1f95, U"\u1f2d\u0399", U"\u1f9d"},
    {0x1f96, U"\u1f2e\u0399", U"\u1f9e"},
    {0x1f97, U"\u1f2f\u0399", U"\u1f9f"},
    {0x1f98, U"\u1f28\u0399", U"\u1f98"},
    {0x1f99, U"\u1f29\u0399", U"\u1f99"},
    {0x1f9a, U"\u1f2a\u0399", U"\u1f9a"},
    {0x1f9b, U"\u1f2b\u0399", U"\u1f9b"},
    {0x1f9c, U"\u1f2c\u0399", U"\u1f9c"},
    {0x1f9d, U"\u1f2d\u0399", U"\u1f9d"},
    {0x1f9e, U"\u1f2e\u0399", U"\u1f9e"},
    {0x1f9f, U"\u1f2f\u0399", U"\u1f9f"},
    {0x1fa0, U"\u1f68\u0399", U"\u1fa8"},
    {0x1fa1, U"\u1f69\u0399", U"\u1fa9"},
    {0x1fa2, U"\u1f6a\u0399", U"\u1faa"},
    {0x1fa3, U"\u1f6b\u0399", U"\u1fab"},
    {0x1fa4, U"\u1f6c\u0399", U"\u1fac"},
    {0x1fa5, U"\u1f6d\u0399", U"\u1fad"},
    {0x1fa6, U"\u1f6e\u0399", U"\u1fae"},
    {0x1fa7, U"\u1f6f\u0399", U"\u1faf"},
    {0x1fa8, U"\u1f68\u0399", U"\u1fa8"},
    {0x1fa9, U"\u1f69\u0399", U"\u1fa9"},
    {0x1faa, U"\u1f6a\u0399", U"\u1faa"},
    {0x1fab, U"\u1f6b\u0399", U"\u1fab"},
    {0x1fac, U"\u1f6c\u0399", U"\u1fac"},
    {0x1fad, U"\u1f6d\u0399", U"\u1fad"},
    {0x1fae, U"\u1f6e\u0399", U"\u1fae"},
    {0x1faf, U"\u1f6f\u0399", U"\u1faf"},
    {0x1fb2, U"\u1fba\u0399", U"\u1fba\u0345"},
    {0x1fb3, U"\u0391\u0399", U"\u1fbc"},
    {0x1fb4, U"\u0386\u0399", U"\u0386\u0345"},
    {0x1fb6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1fb7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    {0x1fbc, U"\u0391\u0399", U"\u1fbc"},
    {0x1fc2, U"\u1fca\u0399", U"\u1fca\u0345"},
    {0x1fc3, U"\u0397\u0399", U"\u1fcc"},
    {0x1fc4, U"\u0389\u0399", U"\u0389\u0345"},
    {0x1fc6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1fc7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    {0x1fcc, U"\u0397\u0399", U"\u1fcc"},
    {0x1fd2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    {0x1fd3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1fd6, U"\u0399\u0342", U"\u0399\u0342"},
    {0x1fd7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1fe2, U"\u03a5\u0308\u0300", U"\u03a5\u0308\u0300"},
    {0x1fe3, U"\u03a5\u0308\u0301", U"\u03a5\u0308\u0301"},
    {0x1fe4, U"\u03a1\u0313", U"\u03a1\u0313"},
    {0x1fe6, U"\u03a5\u0342", U"\u03a5\u0342"},
    {0x1fe7, U"\u03a5\u0308\u0342", U"\u03a5\u0308\u0342"},
    {0x1ff2, U"\u1ffa\u0399", U"\u1ffa\u0345"},
    {0x1ff3, U"\u03a9\u0399", U"\u1ffc"},
    {0x1ff4, U"\u038f\u0399", U"\u038f\u0345"},
    {0x1ff6, U"\u03a9\u0342", U"\u03a9\u0342"},
    {0x1ff7, U"\u03a9\u0342\u0399", U"\u03a9\u0342\u0345"},
    {0x1ffc, U"\u03a9\u0399", U"\u1ffc"},
    {0xfb00, U"FF", U"Ff"},
    {0xfb01, U"FI", U"Fi"},
    {0xfb02, U"FL", U"Fl"},
    {0xfb03, U"FFI", U"Ffi"},
    {0xfb04, U"FFL", U"Ffl"},
    {0xfb05, U"ST", U"St"},
    {0xfb06, U"ST", U"St"},
    {0xfb13, U"\u0544\u0546", U"\u0544\u0576"},
    {0xfb14, U"\u0544\u0535", U"\u0544\u0565"},
    {0xfb15, U"\u0544\u053b", U"\u0544\u056b"},
    {0xfb16, U"\u054e\u0546", U"\u054e\u0576"},
    {0xfb17, U"\u0544\u053d", U"\u0544\u056d"},
};

const LongCase* long_case(char32_t c) {
  const auto* found =
      std::lower_bound(std::begin(kLongCases), std::end(kLongCases), c,
                       [](const LongCase& row, char32_t x) { return row.from < x; });
  return found != std::end(kLongCases) && found->from == c ? found : nullptr;
}

void put_upper(std::u32string& out, char32_t c) {
  if (const LongCase* row = c < 0x80 ? nullptr : long_case(c)) {
    out += row->upper;
  } else {
    out += static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
  }
}

void put_title(std::u32string& out, char32_t c) {
  if (const LongCase* row = c < 0x80 ? nullptr : long_case(c)) {
    out += row->title;
  } else {
    out += static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
  }
}

bool is_case_ignorable(char32_t c) {
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_ME ||
         kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_LM ||
         kind == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xb7 ||
         c == 0x2018 || c == 0x2019;
}

// A capital sigma at the end of a word has a form of its own.
bool is_final_sigma(std::u32string_view text, size_t at) {
  size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

void put_lower(std::u32string& out, std::u32string_view text, size_t at) {
  const char32_t c = text[at];
  if (c == 0x130) {
    out += U"i\u0307";
  } else if (c == 0x3a3) {
    out += is_final_sigma(text, at) ? char32_t{0x3c2} : char32_t{0x3c3};
  } else {
    out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  }
}

bool of_class(char32_t c, CharacterClass wanted) {
  switch (wanted) {
    case CharacterClass::alpha:
      return is_alpha(c);
    case CharacterClass::digit:
      return is_digit(c);
    case CharacterClass::decimal:
      return is_decimal(c);
    case CharacterClass::numeric:
      return is_number(c);
    case CharacterClass::alnum:
      return is_alpha(c) || is_number(c);
    case CharacterClass::space:
      return is_white_space(c);
    case CharacterClass::printable:
      return is_printable(c);
    case CharacterClass::ascii:
      return c < 0x80;
  }
  return false;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

// The code point of \xNN, \uNNNN, \UNNNNNNNN.
char32_t hex_escape(std::string_view literal, size_t& at, int digits) {
  char32_t c = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    const int digit = at < literal.size() ? hex_digit(literal[at]) : -1;
    if (digit < 0)
      fail("a string has a \\{} escape with fewer than {} hex digits",
           digits == 2   ? "x"
           : digits == 4 ? "u"
                         : "U",
           digits);
    c = c * 16 + static_cast<char32_t>(digit);
  }
  if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
    fail("a string has an escape for {:x}, which is no character", static_cast<uint32_t>(c));
  }
  return c;
}

char32_t octal_escape(std::string_view literal, size_t& at) {
  char32_t c = 0;
  for (int i = 0; i < 3 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7'; ++i) {
    c = c * 8 + static_cast<char32_t>(literal[at++] - '0');
  }
  return c;
}

}  // namespace

std::string upper(std::string_view text) {
  std::u32string out;
  for (const char32_t c : code_points(text)) put_upper(out, c);
  return utf8(out);
}

std::string lower(std::string_view text) {
  const std::u32string points = code_points(text);
  std::u32string out;
  for (size_t i = 0; i < points.size(); ++i) put_lower(out, points, i);
  return utf8(out);
}

std::string title(std::string_view text) {
  const std::u32string points = code_points(text);
  std::u32string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0 && is_cased(points[i - 1])) {
      put_lower(out, points, i);
    } else {
      put_title(out, points[i]);
    }
  }
  return utf8(out);
}

std::string capitalized(std::string_view text) {
  const std::u32string points = code_points(text);
  std::u32string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if (i > 0) {
      put_lower(out, points, i);
    } else {
      put_title(out, points[i]);
    }
  }
  return utf8(out);
}

std::string case_swapped(std::string_view text) {
  const std::u32string points = code_points(text);
  std::u32string out;
  for (size_t i = 0; i < points.size(); ++i) {
    if (is_upper(points[i])) {
      put_lower(out, points, i);
    } else if (is_lower(points[i])) {
      put_upper(out, points[i]);
    } else {
      out += points[i];
    }
  }
  return utf8(out);
}

bool all_of_class(std::string_view text, CharacterClass wanted) {
  const std::u32string points = code_points(text);
  if (points.empty()) return wanted == CharacterClass::ascii || wanted == CharacterClass::printable;
  return std::all_of(points.begin(), points.end(), [&](char32_t c) { return of_class(c, wanted); });
}

bool is_lower_text(std::string_view text) {
  const std::u32string points = code_points(text);
  return std::any_of(points.begin(), points.end(), is_lower) &&
         std::none_of(points.begin(), points.end(),
                      [](char32_t c) { return is_upper(c) || is_title(c); });
}

bool is_upper_text(std::string_view text) {
  const std::u32string points = code_points(text);
  return std::any_of(points.begin(), points.end(), is_upper) &&
         std::none_of(points.begin(), points.end(),
                      [](char32_t c) { return is_lower(c) || is_title(c); });
}

bool is_title_text(std::string_view text) {
  bool after_cased = false, any = false;
  for (const char32_t c : code_points(text)) {
    const bool capital = is_upper(c) || is_title(c);
    if ((capital && after_cased) || (is_lower(c) && !after_cased)) return false;
    any = any || is_cased(c);
    after_cased = is_cased(c);
  }
  return any;
}

bool is_word_character(char32_t c) { return c == '_' || is_alpha(c) || is_number(c); }

size_t name_length(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = utf8_sequence(text.substr(at));
    if (length == 0) break;
    const char32_t c = code_points(text.substr(at, length))[0];
    const bool mark = category(c) == UTF8PROC_CATEGORY_MN || category(c) == UTF8PROC_CATEGORY_MC;
    const bool inner = at > 0 && (is_decimal(c) || mark);
    if (c != '_' && !is_alpha(c) && !inner) break;
    at += length;
  }
  return at;
}

std::string unescaped(std::string_view literal) {
  constexpr std::string_view kNames = "\\'\"abfnrtv", kValues = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t i = 0; i < literal.size();) {
    const char c = literal[i++];
    if (c != '\\' || i >= literal.size()) {
      out += c;
      continue;
    }
    const char name = literal[i++];
    if (const size_t found = kNames.find(name); found != kNames.npos) {
      out += kValues[found];
    } else if (name == 'x' || name == 'u' || name == 'U') {
      append_code_point(out, hex_escape(literal, i, name == 'x' ? 2 : name == 'u' ? 4 : 8));
    } else if (name >= '0' && name <= '7') {
      append_code_point(out, octal_escape(literal, --i));
    } else if (name == 'N') {
      fail("a string has a \\N escape, which is not supported; write the character itself");
    } else if (name != '\n') {  // a line continuation leaves nothing; the rest stays as it is
      out += '\\';
      out += name;
    }
  }
  return out;
}

std::string python_quoted(std::string_view text) {
  const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
  const char quote = single ? '\'' : '"';
  std::string out(1, quote);
  for (const char32_t c : code_points(text)) {
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      append_code_point(out, c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (is_printable(c)) {
      append_code_point(out, c);
    } else if (c < 0x100) {
      out += format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  return out += quote;
}

}  // namespace tephra::jinja
