// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/text.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

TEST(Text, TrimsAndSplits) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
  EXPECT_EQ(split("a,", ','), (std::vector<std::string_view>{"a", ""}));
}

TEST(Text, KnowsUtf8) {
  EXPECT_TRUE(is_utf8("aé€😀"));
  EXPECT_TRUE(is_utf8("\xf4\x8f\xbf\xbf"));   // U+10FFFF
  EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80"));  // beyond it
  EXPECT_FALSE(is_utf8("\xc0\x80"));          // overlong
  EXPECT_FALSE(is_utf8("\xe0\x9f\xbf"));      // overlong
  EXPECT_FALSE(is_utf8("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(is_utf8("\x80"));
  EXPECT_FALSE(is_utf8("\xe2\x82"));  // cut short
  EXPECT_FALSE(is_utf8("\xff"));
}

// Every code point, encoded by the definition, is one sequence; all else of two bytes is none.
TEST(Text, Utf8AgreesWithItsDefinition) {
  int valid_pairs = 0;
  for (unsigned a = 0x80; a < 0x100; ++a) {
    for (unsigned b = 0; b < 0x100; ++b) {
      const char pair[] = {static_cast<char>(a), static_cast<char>(b)};
      const bool expected = a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
      ASSERT_EQ(utf8_sequence({pair, 2}) == 2, expected);
      valid_pairs += expected;
    }
  }
  EXPECT_EQ(valid_pairs, 0x800 - 0x80);
  for (unsigned c = 0x800; c < 0x110000; ++c) {
    std::string s;
    if (c < 0x10000) {
      s = {static_cast<char>(0xe0 | c >> 12)};
    } else {
      s = {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3f))};
    }
    s += static_cast<char>(0x80 | (c >> 6 & 0x3f));
    s += static_cast<char>(0x80 | (c & 0x3f));
    const bool surrogate = c >= 0xd800 && c < 0xe000;
    ASSERT_EQ(utf8_sequence(s), surrogate ? 0 : s.size()) << c;
  }
}

TEST(Text, ClipsBetweenSequences) {
  EXPECT_EQ(clipped("abcdef", 6), "abcdef");
  EXPECT_EQ(clipped("abcdefg", 6), "abc...");
  EXPECT_EQ(clipped("aé€uvwx", 6), "aé...");
  EXPECT_EQ(clipped("aaé€uvw", 6), "aa...");
  EXPECT_EQ(clipped(std::string_view("a\x1b[2J\0\n", 7), 9), "a?[2J??");
}

TEST(Text, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("--modle", "--model"), 1);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);
}

TEST(Text, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string> names = {"train", "eval", "generate", "chat", "serve"};
  EXPECT_EQ(nearest("tarin", names), "train");
  EXPECT_EQ(nearest("genrate", names), "generate");
  EXPECT_EQ(nearest("xyzzy", names), std::nullopt);
  EXPECT_EQ(nearest("a", {}), std::nullopt);
  EXPECT_EQ(nearest("ab", std::vector<std::string>{"ac", "ad"}), "ac");
}

TEST(Text, WritesSizesForPeople) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(40960), "40.0 KiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(17'680'978'928), "16.5 GiB");
  EXPECT_EQ(human_bytes(INT64_MAX), "8.0 EiB");
  EXPECT_EQ(human_bytes(-2048), "-2.0 KiB");
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(-1000), "-1,000");
  EXPECT_EQ(human_count(8840489464), "8,840,489,464");
  EXPECT_EQ(human_count(INT64_MIN), "-9,223,372,036,854,775,808");
}

TEST(Text, ParsesSizesInDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("5GB"), 5'000'000'000);
  EXPECT_EQ(parse_bytes(" 1.5 KiB "), 1536);
  EXPECT_EQ(parse_bytes("4096"), 4096);
  for (const char* text : {"", "GB", "5 apples", "-1", "5gb", "1e30", "nan", "inf"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tephra
