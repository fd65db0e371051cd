// SPDX-License-Identifier: Apache-2.0
// Training against a version that counts everything anew for each merge; determinism; the files.
#include "tephra/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tephra/base/files.h"
#include "tephra/base/parallel.h"
#include "tephra/text/byte_alphabet.h"
#include "tephra/text/tokenizer.h"
#include "tephra/text/training_text.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

std::vector<WordCount> words_of(const std::string& text, TokenizerForm form) {
  WordCounter counter(form);
  counter.add({text});
  return counter.take();
}

Merges merges_of(const TrainedBpe& trained) {
  Merges merges;
  for (const auto& [a, b] : trained.merges) {
    merges.emplace_back(trained.tokens[static_cast<size_t>(a)],
                        trained.tokens[static_cast<size_t>(b)]);
  }
  return merges;
}

// Byte-level, one recount a merge. Ids follow the order in which tokens were made.
Merges plain_merges(const std::vector<WordCount>& words, size_t merges) {
  std::map<std::string, int> ids;
  for (const uint16_t c : byte_alphabet()) ids[std::string()] = 0, ids[{static_cast<char>(c)}] = c;
  std::vector<std::vector<std::string>> spelled;
  for (const WordCount& w : words) {
    spelled.emplace_back();
    for (const char c : w.word) spelled.back().push_back(spelling_of_bytes({&c, 1}));
    for (const std::string& s : spelled.back()) ids.emplace(s, 0);
  }
  int order = 0;  // letters in the order of the alphabet
  for (auto& [text, id] : ids) id = order++;
  Merges made;
  while (made.size() < merges) {
    std::map<std::pair<int, int>, std::pair<int64_t, std::pair<std::string, std::string>>> counts;
    for (size_t i = 0; i < words.size(); ++i) {
      for (size_t k = 0; k + 1 < spelled[i].size(); ++k) {
        const std::string &a = spelled[i][k], &b = spelled[i][k + 1];
        auto& entry = counts[{ids[a], ids[b]}];
        entry.first += words[i].count;
        entry.second = {a, b};
      }
    }
    int64_t best = 1;
    std::pair<std::string, std::string> pair;
    for (const auto& [key, entry] : counts) {
      if (entry.first > best) best = entry.first, pair = entry.second;
    }
    if (best < 2) break;
    made.push_back(pair);
    ids.emplace(pair.first + pair.second, order++);
    for (auto& s : spelled) {
      for (size_t k = 0; k + 1 < s.size(); ++k) {
        if (s[k] != pair.first || s[k + 1] != pair.second) continue;
        s[k] += s[k + 1];
        s.erase(s.begin() + static_cast<std::ptrdiff_t>(k) + 1);
      }
    }
  }
  return made;
}

std::string random_words(int seed, size_t count) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    for (auto n = 1 + random() % 8; n > 0; --n) text += "aabcdee"[random() % 7];
    text += random() % 5 == 0 ? "\n" : " ";
  }
  return text;
}

TEST(BpeTrainer, LearnsTheMergesThatRecountingFinds) {
  for (int seed = 0; seed < 5; ++seed) {
    const auto words = words_of(random_words(seed, 400), TokenizerForm::byte_level);
    const TrainedBpe trained = train_bpe(words, {.vocab_size = 360, .max_token_chars = 0});
    EXPECT_EQ(merges_of(trained), plain_merges(words, 100));
  }
}

TEST(BpeTrainer, GivesTheSameOnAnyNumberOfThreads) {
  const Scratch scratch;
  const std::string some = random_words(1, 5000);
  std::string text;
  while (text.size() < (5u << 19)) text += some;  // three chunks
  write_file(scratch / "a.txt", text);
  std::string before;
  const int threads = num_threads();
  for (const int count : {1, 2, 3, 8}) {
    set_num_threads(count);
    WordCounter counter(TokenizerForm::gemma);
    Progress progress("test", 0, "B");
    count_file(scratch / "a.txt", counter, progress);
    const BpeTrainOptions options{.form = TokenizerForm::gemma, .vocab_size = 600};
    const std::string file = tokenizer_json(train_bpe(counter.take(), options), options, {}).dump();
    if (before.empty()) before = file;
    EXPECT_EQ(file, before) << count;
  }
  set_num_threads(threads);
}

TEST(BpeTrainer, WritesTokenizersThatReadBackWhatTheyWrote) {
  const std::string text =
      "The café, naïve façade.\n\n  Two spaces 1234 <eos> don't 物理 🙂 the café";
  for (const TokenizerForm form :
       {TokenizerForm::byte_level, TokenizerForm::gemma, TokenizerForm::llama}) {
    BpeTrainOptions options{.form = form, .vocab_size = 420, .coverage = 0.9};
    options.special_tokens.emplace_back("<|user|>");
    const TrainedBpe trained = train_bpe(words_of(text, form), options);
    const Tokenizer tokenizer = Tokenizer::parse(
        tokenizer_json(trained, options, {.add_bos = true, .add_eos = true}).dump(), "trained");
    EXPECT_EQ(
        tokenizer.decode(tokenizer.encode(text)),
        form == TokenizerForm::llama
            ? "The café, naïve façade.\n\n  Two spaces 1234 <eos>  don't 物理 🙂 the café"
            : text);
    const std::vector<int32_t> ids = tokenizer.encode("<|user|>", AddSpecial::all);
    EXPECT_EQ(ids, (std::vector<int32_t>{2, 4, 1}));
    EXPECT_EQ(tokenizer.encode("<|user|>", AddSpecial::before), (std::vector<int32_t>{2, 4}));
  }
}

TEST(BpeTrainer, NeverMergesIntoASpecialToken) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "<eos> ";
  const BpeTrainOptions options{.vocab_size = 300, .max_token_chars = 0};
  const TrainedBpe trained = train_bpe(words_of(text, TokenizerForm::byte_level), options);
  EXPECT_EQ(std::count(trained.tokens.begin(), trained.tokens.end(), "<eos>"), 1);
  Tokenizer::parse(tokenizer_json(trained, options, {}).dump(), "trained");
}

TEST(BpeTrainer, ReadsJsonLinesAndNamesABadOne) {
  const Scratch scratch;
  write_file(scratch / "a.jsonl", "{\"text\": \"one two\"}\n\n{\"text\": \"two\"}\n");
  WordCounter counter(TokenizerForm::byte_level);
  Progress progress("test", 0, "B");
  count_file(scratch / "a.jsonl", counter, progress);
  std::map<std::string, int64_t> counts;
  for (const WordCount& w : counter.take()) counts[w.word] = w.count;
  EXPECT_EQ(counts,
            (std::map<std::string, int64_t>{{" two", 1}, {"\n", 2}, {"one", 1}, {"two", 1}}));
  write_file(scratch / "b.jsonl", "{\"text\": \"one\"}\n{\"body\": 1}\n");
  EXPECT_NE(message_of([&] {
              count_file(scratch / "b.jsonl", counter, progress);
            }).find("b.jsonl: line 2"),
            std::string::npos);
}

TEST(BpeTrainer, RefusesAVocabularyThatCannotHoldTheCharacters) {
  EXPECT_NE(message_of([] {
              train_bpe(words_of("abc", TokenizerForm::gemma),
                        {.form = TokenizerForm::gemma, .vocab_size = 300});
            }).find("--vocab-size: special tokens, bytes and characters take"),
            std::string::npos);
}

}  // namespace
}  // namespace tephra
