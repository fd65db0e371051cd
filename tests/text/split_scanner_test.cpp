// SPDX-License-Identifier: Apache-2.0
// Every hand-written scanner against its pattern run by PCRE2, on texts made to be hard.
#include "tephra/text/split_scanner.h"

#include <gtest/gtest.h>

#include <random>

#include "tephra/text/regex.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

// Characters of all kinds the patterns distinguish; PCRE2 knows Unicode 14, utf8proc 15, so none
// that is newer than 14.
constexpr uint32_t kHard[] = {
    ' ',    ' ',    '\n',   '\r',   '\t',    '\v',     '\'',    '\'',    's',     'S',    't',
    'r',    'e',    'v',    'l',    'L',     'd',      'm',     'a',     'Z',     '0',    '7',
    '.',    '/',    '_',    0x85,   0xa0,    0x1680,   0x180e,  0x2003,  0x2028,  0x3000, 0x200b,
    0x017f, 0x01c5, 0x02b0, 0x0301, 0x0903,  0x20dd,   0x660,   0x2160,  0xbd,    0x4e00, 0x3042,
    0xac00, 0x5d0,  0x627,  0xe9,   0xc9,    0x20ac,   0x1f642, 0x1d7d8, 0x1d400, 0x200d, 0xfffd,
    0xe000, 0xfeff, 0x0,    0x7f,   0x1f1eb, 0x10ffff, 0xffff,  0x212a,  0x0130,  0x0131, 0x1e9e};

std::vector<std::string> by_pattern(std::string_view text, const Regex& regex) {
  std::vector<std::string> pieces;
  size_t covered = 0;
  regex.each_match(text, [&](size_t begin, size_t end) {
    EXPECT_EQ(begin, covered);
    pieces.emplace_back(text.substr(begin, end - begin));
    covered = end;
  });
  EXPECT_EQ(covered, text.size());
  return pieces;
}

std::vector<std::string> by_scanner(std::string_view text, SplitScanner scanner) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t length = scanner(text.data(), text.data() + text.size());
    pieces.emplace_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

TEST(SplitScanner, FindsThePiecesOfItsPatternInRandomText) {
  for (const KnownPattern& known : known_split_patterns()) {
    const Regex regex(known.pattern, "test");
    const SplitScanner scanner = find_split_scanner(known.pattern);
    std::mt19937 random(7);
    for (int round = 0; round < 4000; ++round) {
      std::string text;
      for (auto n = random() % 24; n > 0; --n) {
        append_utf8(text, kHard[random() % std::size(kHard)]);
      }
      ASSERT_EQ(by_scanner(text, scanner), by_pattern(text, regex)) << known.name << ": " << text;
    }
  }
}

TEST(SplitScanner, KnowsTheKindOfEveryCharacterThatBothLibrariesKnow) {
  std::string all;
  std::vector<uint32_t> at;  // by the byte that the character begins with
  for (uint32_t c = 0; c < 0x110000; c += c < 0x30000 ? 1 : 251) {
    if (c >= 0xd800 && c < 0xe000) continue;
    append_utf8(all, c);
    at.resize(all.size(), c);
  }
  const auto kinds = [&](const char* pattern) {
    std::vector<bool> is(all.size());
    Regex(pattern, "test").each_match(all, [&](size_t begin, size_t) { is[begin] = true; });
    return is;
  };
  const std::vector<bool> letter = kinds("\\p{L}"), number = kinds("\\p{N}"), space = kinds("\\s"),
                          assigned = kinds("\\P{Cn}"),
                          upper = kinds("[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"),
                          lower = kinds("[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]");
  int differ = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!assigned[i]) continue;
    const uint8_t bits = char_bits(at[i]);
    differ += letter[i] != ((bits & kLetter) != 0) || number[i] != ((bits & kNumber) != 0) ||
              space[i] != ((bits & kSpace) != 0) || upper[i] != ((bits & kUpperish) != 0) ||
              lower[i] != ((bits & kLowerish) != 0);
  }
  EXPECT_EQ(differ, 0);
}

TEST(SplitScanner, IsNotUsedForPatternsItDoesNotKnow) {
  EXPECT_EQ(find_split_scanner("\\s+"), nullptr);
  EXPECT_NE(find_split_scanner(kGpt2Pattern), nullptr);
}

TEST(Regex, KeepsNamedClassesWholeInsideAClass) {
  std::vector<size_t> begins;
  Regex("[[:digit:]\\s]+", "test").each_match("a1\u00a02b", [&](size_t begin, size_t end) {
    begins.push_back(begin);
    begins.push_back(end);
  });
  EXPECT_EQ(begins, (std::vector<size_t>{1, 5}));
}

}  // namespace
}  // namespace tephra
