// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/split_scanner.h"

#include "tephra/text/unicode.h"

namespace tephra {
namespace {

// One character: its bits and length; none (no bits, no length) at the end.
struct Char {
  uint8_t bits;
  uint8_t bytes;
  bool is(uint8_t mask) const { return (bits & mask) != 0; }
};

inline Char char_at(const char* p, const char* end) {
  if (p == end) return {0, 0};
  const auto b = static_cast<unsigned char>(*p);
  if (b < 0x80) return {kAsciiBits[b], 1};
  const CodePoint c = first_code_point(p);
  return {wide_char_bits(c.value), static_cast<uint8_t>(c.bytes)};
}

// The end of the run of characters that have one of these bits.
inline const char* skip(const char* p, const char* end, uint8_t mask) {
  for (Char c = char_at(p, end); c.is(mask); c = char_at(p, end)) p += c.bytes;
  return p;
}

// [^\s\p{L}\p{N}]: nothing of these, and not the end.
inline bool is_symbol(Char c) { return c.bytes != 0 && !c.is(kSpace | kLetter | kNumber); }

inline const char* skip_symbols(const char* p, const char* end) {
  for (Char c = char_at(p, end); is_symbol(c); c = char_at(p, end)) p += c.bytes;
  return p;
}

inline const char* skip_newlines(const char* p, const char* end, bool slash_too) {
  while (p != end && (*p == '\r' || *p == '\n' || (slash_too && *p == '/'))) ++p;
  return p;
}

inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// 's|'t|'re|'ve|'m|'ll|'d, in any case when asked; then the long s (U+017F) is an s, too.
template <bool any_case>
const char* skip_contraction(const char* p, const char* end) {
  if (end - p < 2 || *p != '\'') return p;
  const char a = any_case ? lower(p[1]) : p[1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return p + 2;
  if (end - p < 3) return p;
  const char b = any_case ? lower(p[2]) : p[2];
  const bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  const bool long_s = any_case && p[1] == '\xc5' && p[2] == '\xbf';
  return two || long_s ? p + 3 : p;
}

// \s+(?!\S)|\s+ on a run of space that ends at `run`: the last character belongs to what follows.
const char* before_last_space(const char* p, const char* run, const char* end) {
  if (run == end) return run;
  const char* last = run - 1;
  while ((static_cast<unsigned char>(*last) & 0xc0) == 0x80) --last;
  return last == p ? run : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+: through the last newline of the run, if it has one.
const char* skip_space_and_newlines(const char* p, const char* end) {
  const char* run = skip(p, end, kSpace);
  for (const char* q = run; q != p; --q) {
    if (q[-1] == '\n' || q[-1] == '\r') return q;
  }
  return before_last_space(p, run, end);
}

template <int most>  // 0: any number
const char* skip_numbers(const char* p, const char* end) {
  if constexpr (most == 0) return skip(p, end, kNumber);
  for (int i = 0; i < most; ++i) {
    const Char c = char_at(p, end);
    if (!c.is(kNumber)) break;
    p += c.bytes;
  }
  return p;
}

size_t gpt2_scanner(const char* p, const char* end) {
  const auto length = [p](const char* q) { return static_cast<size_t>(q - p); };
  if (const char* q = skip_contraction<false>(p, end); q != p) return length(q);
  const char* start = p + (*p == ' ' ? 1 : 0);
  const Char c = char_at(start, end);
  if (c.is(kLetter)) return length(skip(start, end, kLetter));
  if (c.is(kNumber)) return length(skip(start, end, kNumber));
  if (is_symbol(c)) return length(skip_symbols(start, end));
  return length(before_last_space(p, skip(p, end, kSpace), end));
}

// GPT-4's pattern and its kin: words with one leading non-letter, numbers of up to `digits`.
template <int digits>
size_t cl100k_scanner(const char* p, const char* end) {
  const auto length = [p](const char* q) { return static_cast<size_t>(q - p); };
  const Char first = char_at(p, end);
  if (first.is(kLetter)) return length(skip(p + first.bytes, end, kLetter));
  if (first.is(kNumber)) return length(skip_numbers<digits>(p, end));
  if (*p == '\'') {
    if (const char* q = skip_contraction<true>(p, end); q != p) return length(q);
  }
  const char* rest = p + first.bytes;
  const Char second = char_at(rest, end);
  if (!first.is(kNewline) && second.is(kLetter)) {
    return length(skip(rest + second.bytes, end, kLetter));
  }
  if (!first.is(kSpace) || (*p == ' ' && is_symbol(second))) {
    return length(skip_newlines(skip_symbols(rest, end), end, false));
  }
  return length(skip_space_and_newlines(p, end));
}

// [Lu Lt Lm Lo M]*[Ll Lm Lo M]+ from p: null when it does not match.
const char* skip_capitalized(const char* p, const char* end) {
  const char* after_last_lower = nullptr;
  while (true) {
    const Char c = char_at(p, end);
    if (!c.is(kUpperish)) break;
    p += c.bytes;
    if (c.is(kLowerish)) after_last_lower = p;
  }
  const char* q = skip(p, end, kLowerish);
  return q != p ? q : after_last_lower;
}

// [Lu Lt Lm Lo M]+[Ll Lm Lo M]*.
const char* skip_upper(const char* p, const char* end) {
  const char* q = skip(p, end, kUpperish);
  return q == p ? nullptr : skip(q, end, kLowerish);
}

size_t o200k_scanner(const char* p, const char* end) {
  const auto length = [p](const char* q) { return static_cast<size_t>(q - p); };
  const Char first = char_at(p, end);
  const bool may_lead = !first.is(kNewline | kLetter | kNumber);
  for (const auto word : {skip_capitalized, skip_upper}) {
    const char* q = may_lead ? word(p + first.bytes, end) : nullptr;
    if (q == nullptr) q = word(p, end);
    if (q != nullptr) return length(skip_contraction<true>(q, end));
  }
  if (first.is(kNumber)) return length(skip_numbers<3>(p, end));
  const char* start = p + (*p == ' ' ? 1 : 0);
  if (is_symbol(char_at(start, end))) {
    return length(skip_newlines(skip_symbols(start, end), end, true));
  }
  return length(skip_space_and_newlines(p, end));
}

struct Row {
  std::string_view name;
  std::string_view pattern;
  SplitScanner scanner;
};

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

constexpr Row kRows[] = {
    {"gpt2", kGpt2, gpt2_scanner},
    {"cl100k",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     cl100k_scanner<3>},
    {"cl100k, possessive",
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     cl100k_scanner<3>},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     cl100k_scanner<1>},
    {"o200k",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     o200k_scanner},
};

}  // namespace

const std::string_view kGpt2Pattern = kGpt2;

SplitScanner find_split_scanner(std::string_view pattern) {
  for (const Row& row : kRows) {
    if (row.pattern == pattern) return row.scanner;
  }
  return nullptr;
}

std::vector<KnownPattern> known_split_patterns() {
  std::vector<KnownPattern> all;
  for (const Row& row : kRows) all.push_back({row.name, row.pattern});
  return all;
}

}  // namespace tephra
