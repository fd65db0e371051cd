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
    for (int round = 0; round < 6000; ++round) {
      std::string text;
      for (auto n = random() % 24; n > 0; --n) {
        append_utf8(text, kHard[random() % std::size(kHard)]);
      }
      ASSERT_EQ(by_scanner(text, scanner), by_pattern(text, regex)) << known.name << ": " << text;
    }
  }
}

TEST(SplitScanner, KnowsTheKindOfEveryCharacterThatBothLibrariesKnow) {
  const Regex letter("\\p{L}", "test"), number("\\p{N}", "test"), space("\\s", "test"),
      assigned("\\P{Cn}", "test");
  const auto matches = [](const Regex& regex, std::string_view text) {
    bool any = false;
    regex.each_match(text, [&](size_t, size_t) { any = true; });
    return any;
  };
  int differ = 0;
  for (uint32_t c = 0x80; c < 0x30000; c += 1 + c % 3) {
    if (c >= 0xd800 && c < 0xe000) continue;
    const std::string text = to_utf8(c);
    if (!matches(assigned, text)) continue;
    const uint8_t bits = char_bits(c);
    differ += matches(letter, text) != ((bits & kLetter) != 0);
    differ += matches(number, text) != ((bits & kNumber) != 0);
    differ += matches(space, text) != ((bits & kSpace) != 0);
  }
  EXPECT_EQ(differ, 0);
}

TEST(SplitScanner, IsNotUsedForPatternsItDoesNotKnow) {
  EXPECT_EQ(find_split_scanner("\\s+"), nullptr);
  EXPECT_NE(find_split_scanner(kGpt2Pattern), nullptr);
}

}  // namespace
}  // namespace tephra
