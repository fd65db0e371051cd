// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/words.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tephra/base/format.h"

namespace tephra {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> result;
  WordReader reader(text);
  for (Word word; reader.next(word);) result.emplace_back(word.text);
  return result;
}

using Words = std::vector<std::string>;

TEST(RetrieveWords, AreRunsOfLettersAndDigitsInLowerCase) {
  EXPECT_EQ(words_of("The QUICK brown-fox (x12)."), (Words{"the", "quick", "brown", "fox", "x12"}));
  EXPECT_EQ(words_of(""), Words{});
  EXPECT_EQ(words_of(" .,;!? \n"), Words{});
  EXPECT_EQ(words_of("don't"), (Words{"don", "t"}));
}

TEST(RetrieveWords, BeyondAsciiAreLoweredAndCutAtForeignPunctuation) {
  EXPECT_EQ(words_of("Élan VITAL don’t—“Straße”"), (Words{"élan", "vital", "don", "t", "straße"}));
  EXPECT_EQ(words_of("caféÜBER"), (Words{"caféüber"}));
  EXPECT_EQ(words_of("МОСКВА"), (Words{"москва"}));
}

TEST(RetrieveWords, OfScriptsWithoutSpacesAreCharacters) {
  EXPECT_EQ(words_of("東京tower"), (Words{"東", "京", "tower"}));
  EXPECT_EQ(words_of("abc東"), (Words{"abc", "東"}));
}

TEST(RetrieveWords, SayWhereTheyStandAndWhetherTheyBeginWithACapital) {
  const std::string_view text = " Ed wrote Éa 1b";
  WordReader reader(text);
  Word word;
  ASSERT_TRUE(reader.next(word));
  EXPECT_EQ(text.substr(word.begin, word.end - word.begin), "Ed");
  EXPECT_TRUE(word.capital);
  ASSERT_TRUE(reader.next(word));
  EXPECT_FALSE(word.capital);
  ASSERT_TRUE(reader.next(word));
  EXPECT_TRUE(word.capital);
  EXPECT_EQ(text.substr(word.begin, word.end - word.begin), "Éa");
  ASSERT_TRUE(reader.next(word));
  EXPECT_FALSE(word.capital);
  EXPECT_FALSE(reader.next(word));
}

TEST(RetrieveWords, HashesAreThoseOfTheirTextAndDiffer) {
  WordReader reader("Longer-than-eight-bytes-word");
  for (Word word; reader.next(word);) EXPECT_EQ(word.hash, word_hash(word.text));
  std::set<uint64_t> seen;
  for (int i = 0; i < 200000; ++i) seen.insert(word_hash(format("w{}", i)));
  EXPECT_EQ(seen.size(), 200000u);
  EXPECT_NE(word_hash(std::string_view("a\0", 2)), word_hash("a"));
}

TEST(RetrieveWords, LoseTheEndingOfAPlural) {
  const auto stem_of = [](std::string_view text) {
    WordReader reader(text);
    Word word;
    reader.next(word);
    return stem_hash(word);
  };
  EXPECT_EQ(stem_of("Towers"), word_hash("tower"));
  EXPECT_EQ(stem_of("cities"), word_hash("city"));
  for (const char* word : {"class", "virus", "basis", "gas", "tower", "s", "12"}) {
    EXPECT_EQ(stem_of(word), word_hash(word)) << word;
  }
}

TEST(RetrieveWords, KnowsStopWords) {
  for (const char* word : {"the", "of", "which", "t", "a", "yourselves"}) {
    EXPECT_TRUE(is_stop_word(word_hash(word))) << word;
  }
  for (const char* word : {"garden", "john", "x", "7"}) {
    EXPECT_FALSE(is_stop_word(word_hash(word))) << word;
  }
}

}  // namespace
}  // namespace tephra
