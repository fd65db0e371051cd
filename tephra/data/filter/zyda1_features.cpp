// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/filter/zyda1_features.h"

#include <array>

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr int64_t kSameRun = 7;

// What a code point is to the counts.
constexpr uint8_t kSeparator = 1, kOther = 2, kDigit = 4, kTrigger = 8, kWordChar = 16;

constexpr uint8_t ascii_kind(int c) {
  uint8_t kind = 0;
  const bool space = c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
  const bool digit = c >= '0' && c <= '9';
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (space || c == '-' || c == '/' || c == '\\' || c == '.') kind |= kSeparator;
  if (!space && !digit && !letter && c != '_') kind |= kOther;
  if (digit) kind |= kDigit;
  if (digit || letter || c == '_') kind |= kWordChar;
  if (c == 'x' || c == ':' || c == 'w' || c == 'p' || c == '<' || c == '>') kind |= kTrigger;
  return kind;
}

constexpr std::array<uint8_t, 128> make_kinds() {
  std::array<uint8_t, 128> kinds{};
  for (int c = 0; c < 128; ++c) kinds[static_cast<size_t>(c)] = ascii_kind(c);
  return kinds;
}

constexpr std::array<uint8_t, 128> kKinds = make_kinds();

uint8_t wide_kind(uint32_t c) {
  const uint8_t bits = wide_char_bits(c);
  if (bits & kSpace) return kSeparator;
  if (bits & kLetter) return kWordChar;
  if (bits & kNumber) return is_decimal_digit(c) ? kWordChar | kDigit : kWordChar;
  return kOther;
}

// Looks around the characters by which patterns are recognised: rare ones, so that most text is
// passed over without a branch taken.
class Patterns {
 public:
  Patterns(std::string_view text, FilterMode mode) : text_(text), mode_(mode) {}

  void at(size_t i, Zyda1Counts& counts) {
    switch (text_[i]) {
      case '<':
        ++counts.less;
        break;
      case '>':
        ++counts.greater;
        break;
      case ':':
        counts.quote_colon += i > 0 && text_[i - 1] == '"';
        counts.https += around(i, "https", "//");
        break;
      case 'p':
        counts.lorem_ipsum += around(i, "lorem i", "sum");
        break;
      case 'x':
        if (!around(i, "", "ml")) break;
        ++counts.xml;
        counts.xml_version += around(i, mode_ == FilterMode::compat ? "" : "<?", "ml version=");
        break;
      default:
        count_www(i, counts);
    }
  }

 private:
  bool around(size_t i, std::string_view before, std::string_view after) const {
    return i >= before.size() && text_.substr(i - before.size(), before.size()) == before &&
           text_.substr(i + 1, after.size()) == after;
  }

  // In the original the dot is any character but a newline.
  void count_www(size_t i, Zyda1Counts& counts) {
    if (i < after_www_ || !around(i, "", "ww") || i + 3 >= text_.size()) return;
    const char next = text_[i + 3];
    if (mode_ == FilterMode::compat ? next == '\n' : next != '.') return;
    after_www_ = i + 4;
    ++counts.www;
  }

  std::string_view text_;
  FilterMode mode_;
  size_t after_www_ = 0;
};

}  // namespace

int64_t zyda1_run_limit(uint32_t c) {
  switch (c) {
    case ' ':
      return 40;
    case '\t':
      return 20;
    case '-':
    case '_':
    case '/':
    case '\\':
    case '\n':
    case '\r':
    case '.':
    case ',':
    case ':':
    case '?':
    case 0xa0:
      return 10;
    default:
      return 0;
  }
}

double Zyda1Counts::mean_word_length(FilterMode mode) const {
  if (length == 0) return 0;
  const int64_t words = mode == FilterMode::compat ? separators + 1 : pieces;
  return words == 0 ? 0 : static_cast<double>(length - separators) / static_cast<double>(words);
}

Zyda1Counts zyda1_counts(std::string_view text, FilterMode mode) {
  Zyda1Counts counts;
  Patterns patterns(text, mode);
  int64_t removed = 0, run = 0, words = 0;
  uint32_t previous = UINT32_MAX;
  uint8_t kind_before = kSeparator;
  const auto end_run = [&] {
    const int64_t limit = zyda1_run_limit(previous);
    if (limit > 0 && run >= limit) {
      removed += run - 1;
    } else if (kind_before & kWordChar) {
      ++counts.same_runs;
    }
  };
  int64_t length = 0, separators = 0, other = 0, digits = 0;
  for (size_t i = 0; i < text.size();) {
    CodePoint c{static_cast<unsigned char>(text[i]), 1};
    uint8_t kind;
    if (c.value < 0x80) [[likely]] {
      kind = kKinds[c.value];
      if (kind & kTrigger) patterns.at(i, counts);
    } else {
      c = first_code_point(text.data() + i);
      kind = wide_kind(c.value);
    }
    ++length;
    separators += kind & kSeparator;
    other += (kind >> 1) & 1;
    digits += (kind >> 2) & 1;
    words += ~kind & kind_before & kSeparator;  // a piece begins
    if (c.value == previous) {
      ++run;
    } else {
      if (run >= kSameRun) end_run();
      run = 1;
      previous = c.value;
    }
    kind_before = kind;
    i += c.bytes;
  }
  if (run >= kSameRun) end_run();
  counts.length = length;
  counts.transformed = length - removed;
  counts.separators = separators;
  counts.pieces = words;
  counts.other = other;
  counts.digits = digits;
  return counts;
}

void zyda1_transform(std::string_view text, std::string& out) {
  out.clear();
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = first_code_point(text.data() + i);
    const int64_t limit = zyda1_run_limit(c.value);
    size_t end = i + c.bytes;
    if (limit > 0) {
      const std::string_view one = text.substr(i, c.bytes);
      while (text.substr(end, c.bytes) == one) end += c.bytes;
      const auto run = static_cast<int64_t>((end - i) / c.bytes);
      out += run >= limit ? one : text.substr(i, end - i);
    } else {
      out += text.substr(i, c.bytes);
    }
    i = end;
  }
}

}  // namespace tephra
