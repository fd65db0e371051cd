// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "tephra/base/format.h"
#include "tephra/base/parallel.h"
#include "tephra/retrieve/index_builder.h"
#include "tephra/retrieve/index_file.h"
#include "tephra/retrieve/words.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

constexpr const char* kStory =
    "Mary Smith went to the garden. John took the football, the red football. John went to the "
    "garden. It is what it is.";
constexpr const char* kMore = "Sandra saw the Eiffel Tower. The tower is red.";

Index index_of(const std::vector<std::pair<std::string, std::string>>& documents) {
  IndexBuilder builder(ChunkOptions{.kind = ChunkKind::sentences});
  for (const auto& [name, text] : documents) builder.add(name, text);
  return builder.finish();
}

std::string file_of(const Index& index, const Path& path) {
  write_index(path, index);
  return read_file(path);
}

TEST(RetrieveIndex, HoldsChunksTermsAndDocuments) {
  const Index index = index_of({{"a", kStory}, {"b", kMore}});
  ASSERT_EQ(index.chunks(), 6);
  EXPECT_EQ(index.documents(), 2);
  EXPECT_EQ(index.text(1), "John took the football, the red football.");
  EXPECT_EQ(index.document_name(index.document_of(3)), "a");
  EXPECT_EQ(index.document_name(index.document_of(4)), "b");
  const auto football = index.find(word_hash("football"));
  ASSERT_TRUE(football);
  EXPECT_EQ(index.term_text(*football), "football");
  EXPECT_EQ(index.postings(*football).chunks[0], 1u);
  EXPECT_EQ(index.postings(*football).counts[0], 2);
  EXPECT_FALSE(index.find(word_hash("the")));  // a stop word
  EXPECT_FALSE(index.find(word_hash("apple")));
  EXPECT_EQ(index.kind(*football), TermKind::word);
  EXPECT_EQ(index.kind(*index.find(word_hash("john"))), TermKind::name);
  EXPECT_EQ(index.kind(*index.find(word_hash("tower"))), TermKind::word);  // also in lower case
  const auto mary = index.find(pair_hash(word_hash("mary"), word_hash("smith")));
  ASSERT_TRUE(mary);
  EXPECT_TRUE(index.is_name_pair(*mary));
  EXPECT_EQ(index.term_text(*mary), "Mary Smith");
}

// The arrays against maps made straight from the words.
TEST(RetrieveIndex, AgreesWithCountingByHand) {
  const Index index = index_of({{"a", kStory}, {"b", kMore}});
  for (uint32_t c = 0; c < index.chunks(); ++c) {
    std::map<uint64_t, int> counts;
    WordReader reader(index.text(c));
    for (Word word; reader.next(word);) {
      if (!is_stop_word(word.hash)) ++counts[stem_hash(word)];
    }
    const Postings held = index.terms_of(c);
    double norm = 0;
    for (size_t i = 0; i < held.chunks.size(); ++i) {
      const uint32_t term = held.chunks[i];
      const double weight =
          (1 + std::log(static_cast<double>(held.counts[i]))) * double{index.idf(term)};
      norm += weight * weight;
      if (index.is_name_pair(term)) continue;
      EXPECT_EQ(counts[index.arrays().term_hash[term]], held.counts[i]);
      counts.erase(index.arrays().term_hash[term]);
      const Postings p = index.postings(term);
      EXPECT_EQ(std::count(p.chunks.begin(), p.chunks.end(), c), 1);
    }
    EXPECT_TRUE(counts.empty());
    EXPECT_NEAR(index.arrays().chunk_norm[c], norm > 0 ? std::sqrt(norm) : 1, 1e-5);
  }
}

TEST(RetrieveIndex, AppendingGivesTheBytesOfMakingItAtOnce) {
  const Scratch scratch;
  const std::string whole = file_of(index_of({{"a", kStory}, {"b", kMore}}), scratch / "whole");
  write_index(scratch / "grown", index_of({{"a", kStory}}));
  IndexBuilder builder(open_index(scratch / "grown"));
  builder.add("b", kMore);
  EXPECT_EQ(file_of(builder.finish(), scratch / "grown"), whole);
  EXPECT_EQ(scratch.names(), (std::vector<std::string>{"grown", "whole"}));
}

TEST(RetrieveIndex, IsTheSameOnAnyNumberOfThreads) {
  const Scratch scratch;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += format("Word{} of sentence {}. ", i * 7 % 501, i % 97);
  std::string first;
  for (const int threads : {1, 2, 3, 8, 16}) {
    set_num_threads(threads);
    const std::string file = file_of(index_of({{"a", text}}), scratch / "index");
    if (first.empty()) first = file;
    EXPECT_TRUE(file == first) << threads << " threads";
  }
  set_num_threads(2);
}

TEST(RetrieveIndex, ComesBackFromItsFile) {
  const Scratch scratch;
  const Index made = index_of({{"a", kStory}});
  write_index(scratch / "index", made);
  const Index read = open_index(scratch / "index");
  EXPECT_EQ(read.chunks(), made.chunks());
  EXPECT_EQ(read.text(2), made.text(2));
  EXPECT_EQ(read.chunk_options(), made.chunk_options());
  EXPECT_EQ(read.find(word_hash("garden")), made.find(word_hash("garden")));
}

TEST(RetrieveIndex, FindsEveryFlippedByteAndEveryCut) {
  const Scratch scratch;
  const std::string good = file_of(index_of({{"a", kStory}}), scratch / "good");
  for (size_t at = 0; at < good.size(); at += 19) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write_file(scratch / "bad", bad);
    try {
      open_index(scratch / "bad");
      // Only padding between sections may change unseen.
      EXPECT_EQ(good[at], 0) << "byte " << at;
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::data);
    }
  }
  for (const size_t size : {size_t{0}, size_t{5}, size_t{11}, size_t{100}, good.size() - 1}) {
    write_file(scratch / "bad", good.substr(0, size));
    EXPECT_EQ(error_of([&] { open_index(scratch / "bad"); }).fault(), Fault::data) << size;
  }
}

TEST(RetrieveIndex, SaysWhatIsWrongWithAFile) {
  const Scratch scratch;
  std::string file = file_of(index_of({{"a", kStory}}), scratch / "index");
  const std::string where = (scratch / "index").string();
  const auto message = [&](const std::string& bytes) {
    write_file(scratch / "index", bytes);
    return std::string(error_of([&] { open_index(scratch / "index"); }).what());
  };
  EXPECT_EQ(message("hello"),
            where + ": expected an index of tephra retrieve, got another kind of file");
  std::string other = file;
  other[8] = 9;
  EXPECT_EQ(message(other), where + ": expected an index of version 1, got version 9");
  std::string text = file;
  text[text.find("football")] = 'F';
  EXPECT_EQ(message(text), where + ": corrupted: section 'text' does not match its hash");
  EXPECT_EQ(message(file.substr(0, file.size() - 8)),
            where + format(": expected {} bytes, the file has {}", file.size(), file.size() - 8));
}

TEST(RetrieveIndex, RefusesEmptyCorporaAndBrokenText) {
  IndexBuilder builder(ChunkOptions{});
  builder.add("empty", "");
  builder.add("dots", " ... \n !");
  EXPECT_STREQ(error_of([&] { builder.finish(); }).what(),
               "index: expected text, got a corpus without a single word");
  const Error error = error_of([&] { builder.add("latin", "caf\xe9 au lait"); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(std::string(error.what()).substr(0, 49),
            "latin: expected UTF-8, got byte 0xe9 at offset 3;");
}

}  // namespace
}  // namespace tephra
