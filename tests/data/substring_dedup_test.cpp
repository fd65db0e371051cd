// SPDX-License-Identifier: Apache-2.0
// Repeated stretches of text: against a plain search, planted ones in a corpus, and inputs made to
// be expensive.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/dedup/repeated_spans.h"
#include "tephra/data/dedup/substring_dedup.h"
#include "tephra/data/line_reader.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// What mark_repeats promises, by a map from windows to the places where they begin.
std::vector<bool> plain_marks(const std::string& text, const RepeatRule& rule) {
  std::map<std::string, std::vector<size_t>> places;
  for (size_t at = 0; at + rule.least <= text.size(); ++at) {
    const std::string window = text.substr(at, rule.least);
    if (window.find(kDocumentEnd) == std::string::npos) places[window].push_back(at);
  }
  std::vector<bool> marks(text.size());
  for (const auto& [window, list] : places) {
    if (list.back() - list.front() < rule.least) continue;
    for (const size_t at : list) {
      if (!rule.keep_one || at - list.front() >= rule.least) marks[at] = true;
    }
  }
  return marks;
}

std::vector<bool> as_bits(const WindowMarks& marks, size_t bytes) {
  std::vector<bool> bits(bytes);
  for (size_t at = marks.next(0, bytes); at < bytes; at = marks.next(at + 1, bytes))
    bits[at] = true;
  return bits;
}

TEST(RepeatedSpans, AreThoseOfAPlainSearchWhole) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const auto letters = 1 + random() % 3;
    std::string text;
    for (uint32_t i = 0; i < random() % 400; ++i) {
      text += random() % 30 == 0 ? kDocumentEnd : static_cast<char>('a' + random() % letters);
    }
    text += kDocumentEnd;
    const RepeatRule rule{1 + random() % 12, random() % 2 == 0};
    const std::vector<bool> want = plain_marks(text, rule);
    WindowMarks whole(text.size());
    std::string copy = text;
    mark_repeats(copy, {0, text.size()}, {}, rule, whole);
    EXPECT_EQ(as_bits(whole, text.size()), want) << text;
    // Three parts in pairs.
    std::vector<TextChunk> parts;
    for (size_t begin = 0; begin < text.size();) {
      const size_t middle = std::min(begin + text.size() / 3, text.size() - 1);
      const size_t end = text.find(kDocumentEnd, middle) + 1;
      parts.push_back({begin, end - begin});
      begin = end;
    }
    if (parts.size() < 2) continue;
    WindowMarks paired(text.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      for (size_t j = i + 1; j < parts.size(); ++j) {
        std::string pair = text.substr(parts[i].begin, parts[i].bytes);
        pair += text.substr(parts[j].begin, parts[j].bytes);
        mark_repeats(pair, parts[i], parts[j], rule, paired);
      }
    }
    EXPECT_EQ(as_bits(paired, text.size()), want) << text;
  }
}

TEST(RepeatedSpans, AreCutBetweenCharacters) {
  // Two characters that share their first two bytes: the bytes repeat, the characters do not.
  const std::string a = "\xe4\xbd\xa0", b = "\xe4\xbd\xa1";
  const std::string repeated = "same words here";
  const std::string text = a + repeated + b;
  WindowMarks marks(text.size());
  for (size_t at = 1; at <= 5; ++at) marks.mark(at);
  const std::vector<ByteRange> ranges = marked_ranges(marks, 0, text, 14);
  ASSERT_EQ(ranges.size(), 1u);
  EXPECT_EQ(ranges[0].begin, 3u);
  EXPECT_EQ(ranges[0].end, 3 + repeated.size());
}

TEST(RepeatedSpans, LeaveWordsWhole) {
  const auto cut = [](const std::string& text, size_t begin, size_t end) {
    WindowMarks marks(text.size());
    marks.mark(begin);
    std::string rest = text;
    for (const ByteRange& range : marked_ranges(marks, 0, text, end - begin)) {
      rest.erase(range.begin, range.end - range.begin);
    }
    return rest;
  };
  const std::string text = "The harbour repairs the größte map.";
  EXPECT_EQ(cut(text, 7, 22), "The harbour the größte map.");  // of "bour repairs th"
  EXPECT_EQ(cut(text, 4, 29), "The größte map.");
  EXPECT_EQ(cut(text, 11, 19), "The harbour the größte map.");
  const std::string letters(300, 'x');  // no word
  EXPECT_EQ(cut(letters, 100, 200), std::string(200, 'x'));
  EXPECT_EQ(cut("你好你好你好", 6, 12), "你好你好");
}

struct SubstringCorpus {
  Scratch scratch;

  void add(const std::string& name, const std::vector<std::string>& texts) {
    std::filesystem::create_directories(scratch / "in");
    std::string lines;
    for (const std::string& text : texts) {
      Json json;
      json["text"] = text;
      lines += json.dump() + "\n";
    }
    write_file(scratch / "in" / (name + ".jsonl"), lines);
  }

  StageRun run(const std::string& out, const SubstringDedupOptions& options,
               Shard shard = {}) const {
    StageSettings stage;
    stage.out = scratch / out;
    stage.shard = shard;
    return dedup_substrings(corpus_files(std::vector<std::string>{(scratch / "in").string()}),
                            options, stage);
  }

  std::vector<std::string> texts(const std::string& out, const std::string& name) const {
    std::vector<std::string> texts;
    const std::string lines =
        read_decompressed(scratch / out / "documents" / "in" / (name + ".jsonl.zst"), 1 << 28);
    for (const std::string_view line : split(lines, '\n')) {
      if (!line.empty()) texts.push_back(Json::parse(line, "line").find("text")->string());
    }
    return texts;
  }
};

std::string random_text(uint32_t seed, size_t bytes) {
  std::mt19937 random(seed);
  std::string text;
  while (text.size() < bytes) text += static_cast<char>('a' + random() % 26);
  return text;
}

TEST(SubstringDedup, KeepsTheFirstCopyWhereverItBegins) {
  SubstringCorpus corpus;
  const std::string shared = random_text(1, 300), own = random_text(2, 100);
  corpus.add("a", {"First: " + shared + ". End", own});
  corpus.add("b", {"Quite another beginning, then-" + shared + "; and a tail",
                   shared.substr(50, 199) + "!", shared});
  const StageRun run = corpus.run("out", {});
  EXPECT_EQ(run.tally["removed_bytes"], 600);
  EXPECT_EQ(run.tally["removed_pieces"], 2);
  EXPECT_EQ(run.tally["emptied_documents"], 1);
  EXPECT_EQ(run.tally["source.in.removed_bytes"], 600);
  EXPECT_EQ(corpus.texts("out", "a"),
            (std::vector<std::string>{"First: " + shared + ". End", own}));
  EXPECT_EQ(corpus.texts("out", "b"),
            (std::vector<std::string>{"Quite another beginning, then-; and a tail",
                                      shared.substr(50, 199) + "!"}));
  SubstringDedupOptions all;
  all.remove_all = true;
  EXPECT_EQ(corpus.run("all", all).tally["removed_bytes"], 900);
  EXPECT_EQ(corpus.texts("all", "a"), (std::vector<std::string>{"First: . End", own}));
}

TEST(SubstringDedup, KeepsOneCopyOfRepeatsThatOverlapThemselves) {
  SubstringCorpus corpus;
  std::string period;
  while (period.size() < 1'000'000) period += "abcdefg ";
  corpus.add("a", {std::string(1'000'000, 'x'), period});
  const StageRun run = corpus.run("out", {});
  const std::vector<std::string> texts = corpus.texts("out", "a");
  ASSERT_EQ(texts.size(), 2u);
  EXPECT_EQ(texts[0], std::string(200, 'x'));
  EXPECT_EQ(texts[1], period.substr(0, 200));
  EXPECT_EQ(run.tally["removed_bytes"], 2'000'000 - 400);
}

TEST(SubstringDedup, GivesTheSameBytesForAnyMemoryThreadsAndShards) {
  SubstringCorpus corpus;
  const std::string notice = random_text(9, 500);
  uint32_t seed = 100;
  for (const char* name : {"a", "b", "c"}) {
    std::vector<std::string> texts;
    for (int i = 0; i < 60; ++i) {
      texts.push_back(random_text(seed, 2000) + (i % 3 == 0 ? notice : "") +
                      (i % 4 == 0 ? random_text(seed - 7, 700) : "") + "\xc3\xa9");
      ++seed;
    }
    corpus.add(name, texts);
  }
  const int before = num_threads();
  std::string first;
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    SubstringDedupOptions options;
    // 440 kB of text: whole, then in parts of 64 KiB and more.
    if (threads > 1) options.memory_bytes = threads == 2 ? 1'000'000 : 1'500'000;
    const std::string out = "out" + std::to_string(threads);
    const StageRun run = corpus.run(out, options);
    std::string bytes = run.tally.to_json().dump();
    for (const char* name : {"a", "b", "c"}) {
      bytes +=
          read_file(corpus.scratch / out / "documents/in" / (std::string(name) + ".jsonl.zst"));
    }
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << threads;
    EXPECT_GT(run.tally["removed_bytes"], 25000);
  }
  set_num_threads(before);
  for (int round = 0; round < 2; ++round) {
    for (const int64_t shard : {0, 1}) corpus.run("shards", {}, {shard, 2});
  }
  corpus.run("shards", {});
  EXPECT_TRUE(read_file(corpus.scratch / "shards/documents/in/b.jsonl.zst") ==
              read_file(corpus.scratch / "out1/documents/in/b.jsonl.zst"));
}

TEST(SubstringDedup, TakesACorpusWithoutText) {
  SubstringCorpus corpus;
  corpus.add("a", {});
  EXPECT_EQ(corpus.run("none", {}).tally["kept"], 0);
  corpus.add("b", {"", ""});
  EXPECT_EQ(corpus.run("empty", {}).tally["kept"], 2);
}

TEST(SubstringDedup, SaysHowMuchMemoryWouldDo) {
  SubstringCorpus corpus;
  corpus.add("a", {random_text(1, 300'000), random_text(2, 300'000)});
  SubstringDedupOptions options;
  options.memory_bytes = 100'000;
  const Error error = error_of([&] { corpus.run("out", options); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(std::string(error.what()).find("585.9 KiB of text"), std::string::npos) << error.what();
  EXPECT_NE(error.hint().find("give at least"), std::string::npos) << error.hint();
  options.memory_bytes = 4 << 20;  // the same folder goes on with more
  EXPECT_EQ(corpus.run("out", options).tally["kept"], 2);
}

}  // namespace
}  // namespace tephra
