// SPDX-License-Identifier: Apache-2.0
// Filters against values that Python's re module gave, and rules on texts made for them.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/data/filter/literals.h"
#include "tephra/data/filter/personal_data.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/filter/repetition.h"
#include "tephra/data/filter/word_lists.h"
#include "tephra/data/filter/words.h"
#include "tephra/data/filter/zyda1_features.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

TEST(Zyda1Filter, CountsWhatPythonCounts) {
  const Path path = TEPHRA_GOLDEN_DIR "/filters/zyda1.json";
  const Json vectors = Json::parse(read_file(path), path.string());
  ASSERT_GT(vectors.array().size(), 300u);
  for (const Json& vector : vectors.array()) {
    const Fields want(vector, path.string());
    const std::string text = want.string("text");
    SCOPED_TRACE(text);
    const Zyda1Counts got = zyda1_counts(text, FilterMode::compat);
    const double length = static_cast<double>(std::max<int64_t>(1, got.length));
    EXPECT_EQ(got.transformed, want.integer("length"));
    EXPECT_NEAR(got.mean_word_length(FilterMode::compat), want.number("mean_word_length"), 1e-12);
    EXPECT_NEAR(static_cast<double>(got.other) / length, want.number("fraction_non_alphanumeric"),
                1e-12);
    EXPECT_NEAR(static_cast<double>(got.digits) / length, want.number("fraction_numerical"), 1e-12);
    EXPECT_EQ(got.same_runs, want.integer("same_character_runs"));
    EXPECT_EQ(count_mail_addresses(text) + count_ipv4(text), want.integer("pii_count"));
    const std::vector<int64_t> patterns = {got.xml,  got.xml_version, got.lorem_ipsum, got.https,
                                           got.less, got.greater,     got.quote_colon, got.www};
    for (size_t i = 0; i < patterns.size(); ++i) {
      EXPECT_EQ(patterns[i], want.array("patterns")[i].integer()) << i;
    }
    std::string transformed;
    zyda1_transform(text, transformed);
    EXPECT_EQ(transformed, want.string("transformed"));
  }
}

TEST(Zyda1Filter, FixedModeRepairsTheQuirks) {
  EXPECT_EQ(zyda1_counts("xml version=1", FilterMode::fixed).xml_version, 0);
  EXPECT_EQ(zyda1_counts("<?xml version=1", FilterMode::fixed).xml_version, 1);
  EXPECT_EQ(zyda1_counts("wwwx www.a.b", FilterMode::fixed).www, 1);
  EXPECT_DOUBLE_EQ(zyda1_counts("ab  cd", FilterMode::fixed).mean_word_length(FilterMode::fixed),
                   2);
}

// Which rules drop the text.
std::vector<std::string> broken(const std::string& preset, FilterMode mode,
                                const std::string& text) {
  const std::vector<FilterPreset> presets = make_filters({{preset}, mode, "", {}});
  std::vector<double> values(presets[0].values.size());
  TextParts parts;
  parts.set(text);
  presets[0].make_worker()->measure(parts, values);
  std::vector<std::string> names;
  for (const FilterRule& rule : presets[0].rules) {
    if (rule.drops(values)) names.push_back(rule.name);
  }
  return names;
}

std::string repeated(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

TEST(Zyda1Filter, EachRuleDropsWhatItIsFor) {
  const std::string prose = repeated("The quick brown fox jumps over the lazy dog again. ", 10);
  const auto drops = [&](const std::string& text) {
    return broken("zyda1", FilterMode::compat, text);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(drops(prose), Names{});
  EXPECT_EQ(drops("Some longer words"), Names{"zyda1.length_min"});
  EXPECT_EQ(drops(repeated("a b ", 100)), Names{"zyda1.mean_word_length_min"});
  EXPECT_EQ(drops(std::string(400, 'y') + repeated("pneumonoultramicroscopic ", 10)),
            Names{"zyda1.mean_word_length_max"});
  EXPECT_EQ(drops(prose + repeated("§", 300)), Names{"zyda1.fraction_non_alphanumeric"});
  EXPECT_EQ(drops(prose + repeated("12345 ", 60)), Names{"zyda1.fraction_numerical"});
  EXPECT_EQ(drops(prose + repeated("aaaaaaa ", 51)), Names{"zyda1.same_character_runs"});
  EXPECT_EQ(drops(prose + repeated("xml words ", 11)), Names{"zyda1.xml"});
  EXPECT_EQ(drops(prose + repeated("lorem ipsum ", 3)), Names{"zyda1.lorem_ipsum"});
  EXPECT_EQ(drops(prose + "https://a https://b"), Names{"zyda1.https"});
  EXPECT_EQ(drops(prose + repeated("www. ", 10)), Names{"zyda1.www"});
}

TEST(GopherFilter, DropsListsSymbolsAndRepetition) {
  std::string prose;
  for (int i = 0; i < 40; ++i) {
    prose += "Sentence number " + std::to_string(i * 7919 % 97) + " talks to you of item " +
             std::to_string(i) + " and that " + std::string(1, static_cast<char>('a' + i % 26)) +
             std::to_string(i * i) + "x with care. ";
  }
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), "gopher." + name) != names.end();
  };
  EXPECT_TRUE(has(broken("gopher", FilterMode::fixed, "too few words of the kind"), "words_min"));
  EXPECT_FALSE(has(broken("gopher", FilterMode::fixed, prose), "words_min"));
  EXPECT_FALSE(has(broken("gopher", FilterMode::fixed, prose), "stop_words"));
  EXPECT_TRUE(has(broken("gopher", FilterMode::fixed, repeated("# tag ", 60)), "hashes_per_word"));
  EXPECT_TRUE(has(broken("gopher", FilterMode::fixed, repeated("- item of the list\n", 30)),
                  "bullet_lines"));
  EXPECT_TRUE(has(broken("gopher", FilterMode::fixed, repeated("the same line to be here\n", 30)),
                  "duplicate_lines"));
  EXPECT_TRUE(has(broken("gopher", FilterMode::fixed, repeated("be to that have ", 60)),
                  "duplicate_5grams"));
}

TEST(GopherFilter, CountsRepeatsAsThePaperDoes) {
  std::vector<TextWord> words;
  split_words("a b c a b c a b d", words);
  ASSERT_EQ(words.size(), 9u);
  Repetition repetition;
  repetition.set_words(words);
  EXPECT_EQ(repetition.top_ngram_chars(2), 3 * 3);  // "a b" three times
  EXPECT_EQ(repetition.top_ngram_chars(3), 2 * 5);  // "a b c" twice
  EXPECT_EQ(repetition.top_ngram_chars(9), 0);
  EXPECT_EQ(repetition.duplicate_ngram_chars(3), 3);  // "abc" once, then "abd" is new
  EXPECT_EQ(repetition.duplicate_ngram_chars(2), 4);  // ab, ca jumped... then bd
  EXPECT_EQ(repetition.duplicate_ngram_chars(20), 0);
}

// Each n-gram against all others, without what is known of shorter ones.
TEST(GopherFilter, CountsRepeatsAsBruteForceDoes) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    std::string text;
    const size_t vocabulary = 2 + random() % 12;
    for (int i = 0; i < 80; ++i)
      text += std::string(1, static_cast<char>('a' + random() % vocabulary)) + " ";
    std::vector<TextWord> words;
    split_words(text, words);
    Repetition repetition;
    repetition.set_words(words);
    const auto gram = [&](size_t i, size_t n) { return text.substr(2 * i, 2 * n - 1); };
    for (size_t n = 2; n <= 4; ++n) {
      int64_t best = 0;
      for (size_t i = 0; i + n <= words.size(); ++i) {
        int64_t count = 0;
        for (size_t j = 0; j + n <= words.size(); ++j) count += gram(i, n) == gram(j, n);
        if (count > 1) best = std::max(best, count * static_cast<int64_t>(2 * n - 1));
      }
      EXPECT_EQ(repetition.top_ngram_chars(n), best) << text;
    }
    for (size_t n = 5; n <= 10; ++n) {
      std::set<std::string> seen;
      int64_t repeated = 0;
      for (size_t i = 0; i + n <= words.size();) {
        const bool is_new = seen.insert(gram(i, n)).second;
        repeated += is_new ? 0 : static_cast<int64_t>(n);
        i += is_new ? 1 : n;
      }
      EXPECT_EQ(repetition.duplicate_ngram_chars(n), repeated) << n << ": " << text;
    }
  }
}

TEST(FilterWords, CutsSpacedAndUnspacedScripts) {
  const auto texts = [](std::string_view text) {
    std::vector<TextWord> words;
    split_words(text, words);
    std::vector<std::string> out;
    for (const TextWord& word : words)
      out.emplace_back((word.symbol ? "=" : "") + std::string(word.text));
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(texts("Don't stop -- it's well-known..."),
            (Texts{"Don't", "stop", "=-", "=-", "it's", "well-known", "=..."}));
  EXPECT_EQ(texts("你好world 1,5"), (Texts{"你", "好", "world", "1", "=,", "5"}));
  EXPECT_EQ(texts(""), Texts{});
}

TEST(C4Filter, KeepsSentencesAndTakesTheRestAway) {
  const std::vector<FilterPreset> presets = make_filters({{"c4"}, FilterMode::compat, "", {}});
  std::vector<double> values(presets[0].values.size());
  const auto worker = presets[0].make_worker();
  TextParts parts;
  parts.set(
      "A good line that ends.[12]\nmenu\nNo end here for sure\nPlease enable javascript now.\n"
      "We use cookies on this site.\nIs this one kept? Yes! It is.[citation needed]\nTwo words.\n"
      "Wait for it...");
  const std::string_view kept = worker->measure(parts, values);
  EXPECT_EQ(kept, "A good line that ends.\nIs this one kept? Yes! It is.");
  EXPECT_EQ(values[1], 6);
  EXPECT_EQ(values[4], 4);  // sentences
  EXPECT_EQ(broken("c4", FilterMode::compat, "if (x) { return; }").front(), "c4.braces");
}

TEST(FineWebFilter, LooksAtLines) {
  const auto drops = [](const std::string& text) {
    return broken("fineweb", FilterMode::fixed, text);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(
      drops("A long enough line that ends with a full stop, as it should.\nAnd another one of "
            "them, also long, also ending well."),
      Names{});
  EXPECT_EQ(
      drops(repeated("menu\n", 1) + "home\nabout\ncontact us here"),
      (Names{"fineweb.punctuated_lines", "fineweb.short_lines", "fineweb.newlines_per_word"}));
}

TEST(Filters, NameTheNearestForWhatDoesNotExist) {
  const Error preset = error_of([] { make_filters({{"zyda"}, FilterMode::fixed, "", {}}); });
  EXPECT_STREQ(preset.what(), "--preset: there is no 'zyda'");
  EXPECT_EQ(preset.hint(), "did you mean zyda1?");
  const Error rule = error_of([] {
    make_filters({{"zyda1"}, FilterMode::fixed, "", {"zyda1.lenght_min=3"}});
  });
  EXPECT_EQ(rule.hint(), "did you mean zyda1.length_min?");
  EXPECT_EQ(error_of([] {
              make_filters({{"c4"}, FilterMode::fixed, "", {"x"}});
            }).fault(),
            Fault::usage);
}

TEST(Literals, CountAsStrCountDoes) {
  const Literals literals({{"aa", 0}, {"aba", 1}, {"b", 2}, {"b", 2}, {"word", 3, true}});
  std::vector<int64_t> counts(4);
  std::vector<size_t> ends;
  literals.count("aaaaa ababa word words sword", counts, ends);
  EXPECT_EQ(counts, (std::vector<int64_t>{2, 1, 4, 1}));
}

TEST(WordLists, AreReadFromAFolder) {
  const Scratch scratch;
  write_file(scratch / "profanity.json", R"([" darn ", " heck "])");
  write_file(scratch / "sexual.json", "[]");
  write_file(scratch / "zh_pornsignals.json", R"(["坏"])");
  write_file(scratch / "cursed_substrings.json", R"(["end$", "x.x"])");
  WordLists::Scratch memory;
  const std::string text = "Darn darn darn heck. 坏 xyx the end";
  const auto compat = WordLists(scratch.path(), FilterMode::compat).count(text, memory);
  EXPECT_EQ(compat[0], 1);  // two share a space, one is capital, one stands before a full stop
  EXPECT_EQ(compat[2], 1);
  EXPECT_EQ(compat[3], 2);
  EXPECT_EQ(WordLists(scratch.path(), FilterMode::fixed).count(text, memory)[0], 4);
  write_file(scratch / "sexual.json", "{}");
  EXPECT_EQ(error_of([&] { WordLists(scratch.path(), FilterMode::fixed); }).fault(), Fault::data);
}

}  // namespace
}  // namespace tephra
