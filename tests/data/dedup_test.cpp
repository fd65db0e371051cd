// SPDX-License-Identifier: Apache-2.0
// Whole runs on texts with planted copies.
#include <gtest/gtest.h>

#include <future>
#include <random>

#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/signer.h"
#include "tephra/data/line_reader.h"
#include "tests/data/random_sentence.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

struct DedupCorpus {
  Scratch scratch;

  void add(const std::string& source, const std::vector<std::string>& texts) {
    std::string lines;
    for (const std::string& text : texts) {
      Json document;
      document["text"] = text;
      lines += document.dump() + "\n";
    }
    std::filesystem::create_directories(scratch / source);
    write_file(scratch / source / "a.jsonl", lines);
    inputs.push_back((scratch / source).string());
  }

  StageRun run(const std::string& out, DedupOptions options, const Shard& shard = {}) const {
    StageSettings stage;
    stage.out = scratch / out;
    stage.shard = shard;
    return dedup_corpus(corpus_files(inputs), options, stage);
  }

  std::string bytes(const std::string& out) {
    std::string all;
    for (const CorpusFile& file :
         corpus_files(std::vector<std::string>{(scratch / out).string()})) {
      all += file.title() + "\n" + read_file(file.path);
    }
    return all + read_file(scratch / out / "report.json");
  }

  std::vector<std::string> inputs;
};

DedupOptions with_preset(const std::string& name) {
  DedupOptions options;
  options.preset = signature_preset(name);
  options.max_source_loss = 1;
  return options;
}

TEST(Dedup, KeepsOneOfEachOnEveryPresetAndThreadCount) {
  std::mt19937 random(23);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) {
    texts.push_back(random_sentence(random, 150));
    if (i % 3 == 0) texts.push_back("  " + texts.back() + "!");  // alike after normalisation
  }
  const int before = num_threads();
  for (const char* preset :
       {"native", "zyda1", "zyda1-xxh3", "fineweb", "zyda2", "zyda2-2024", "native-chars"}) {
    DedupCorpus corpus;
    corpus.add("web", texts);
    std::string first;
    for (const int threads : {1, 3}) {
      set_num_threads(threads);
      const std::string out = "out" + std::to_string(threads);
      const StageRun run = corpus.run(out, with_preset(preset));
      EXPECT_EQ(run.tally["kept"], 300) << preset;
      EXPECT_EQ(run.tally["removed"], 100) << preset;
      if (first.empty()) first = corpus.bytes(out);
      EXPECT_EQ(corpus.bytes(out), first);
    }
  }
  set_num_threads(before);
}

TEST(Dedup, ExactTakesOnlyEqualTexts) {
  DedupCorpus corpus;
  corpus.add("web", {"one text", "another text", "one text", "one text "});
  EXPECT_EQ(corpus.run("out", with_preset("exact")).tally["kept"], 3);
}

TEST(Dedup, KeepsDistinctChineseAndShortTexts) {
  std::mt19937 random(29);
  std::vector<std::string> texts;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    const size_t length = 100 + random() % 200;
    for (size_t c = 0; c < length; ++c) {
      const auto point = static_cast<unsigned>(0x4e00 + random() % 3000);
      text += static_cast<char>(0xe0 | point >> 12);
      text += static_cast<char>(0x80 | (point >> 6 & 63));
      text += static_cast<char>(0x80 | (point & 63));
    }
    texts.push_back(text);
  }
  for (int i = 0; i < 200; ++i) texts.push_back("short " + std::to_string(i));
  for (const char* preset : {"native", "zyda1", "fineweb"}) {
    DedupCorpus corpus;
    corpus.add("zh", texts);
    const StageRun run = corpus.run("out", with_preset(preset));
    // Numbers become 0 for FineWeb, so its short texts are the same by definition.
    EXPECT_EQ(run.tally["kept"], preset == std::string("fineweb") ? 2001 : 2200) << preset;
  }
}

TEST(Dedup, RanksSourcesAndNamesWhatWasKept) {
  std::mt19937 random(31);
  const std::string shared = random_sentence(random, 100), own = random_sentence(random, 100);
  DedupCorpus corpus;
  corpus.add("web", {shared, own, own});
  corpus.add("books", {random_sentence(random, 100), shared});
  DedupOptions options = with_preset("native");
  options.rank = {"books", "web"};
  EXPECT_EQ(corpus.run("all", options).tally["source.web.removed"], 2);
  const std::string removed =
      read_decompressed(corpus.scratch / "all" / "removed" / "web" / "a.jsonl.zst", 1 << 20);
  EXPECT_NE(removed.find(R"("place":"web/a:1","kept":"books/a:2")"), std::string::npos) << removed;
  options.across_sources = true;
  EXPECT_EQ(corpus.run("across", options).tally["removed"], 1);
  options.across_sources = false;
  options.references = {"books"};
  const StageRun against = corpus.run("against", options);
  EXPECT_EQ(against.tally["kept"], 1);
  const Path out = corpus.scratch / "against";
  const Path books = out / "documents" / "books";
  EXPECT_FALSE(std::filesystem::exists(books));
  // As a kill right after the report leaves it: nobody reads that, and a repeated command clears
  // up.
  std::filesystem::create_directories(books);
  write_file(books / "a.jsonl", "{\"text\":\"one\"}\n");
  std::filesystem::create_directories(out / ".work");
  EXPECT_NE(std::string(error_of([&] { documents_of(out); }).what()).find("is not finished"),
            std::string::npos);
  EXPECT_NE(
      std::string(error_of([&] { prepare_output(out, false); }).what()).find("finished output"),
      std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(books));
  EXPECT_EQ(documents_of(out), out / "documents");
  options.rank = {"bocks"};
  EXPECT_EQ(error_of([&] { corpus.run("wrong", options); }).hint(), "did you mean books?");
}

TEST(Dedup, NamesWhatWasKeptByItsIdNotByItsRow) {
  std::mt19937 random(33);
  const std::string text = random_sentence(random, 100);
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  // As a filter leaves it: rows are no longer those of the first input.
  write_file(scratch / "in/a.jsonl", "{\"text\":\"" + text + "\",\"tephra_id\":\"web/one:7\"}\n" +
                                         "{\"text\":\"" + text +
                                         "\",\"tephra_id\":\"web/one:9\"}\n");
  for (const bool verify : {true, false}) {
    DedupOptions options = with_preset("native");
    options.verify = verify;
    StageSettings stage;
    stage.out = scratch / (verify ? "verified" : "not");
    dedup_corpus(corpus_files(std::vector<std::string>{(scratch / "in").string()}), options, stage);
    const std::string removed = read_decompressed(stage.out / "removed/in/a.jsonl.zst", 1 << 20);
    EXPECT_NE(removed.find(
                  R"("id":"web/one:9","place":"in/a:2","kept":"web/one:7","cluster":"web/one:7")"),
              std::string::npos)
        << removed;
  }
}

// Whether a document has an id is a matter of its own keys alone.
TEST(Dedup, GivesAnIdToEveryDocumentThatHasNone) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "in");
  const std::vector<std::string> without = {
      R"({"text":"one says \"tephra_id\" in its text"})",
      R"({"text":"two names it in a list","keys":["tephra_id"]})",
      R"({"text":"three has it deeper","a":{"tephra_id":"x"}})",
      R"({"text":"four looks alike at its end,\"tephra_id\":\"x"})"};
  const std::vector<std::string> with = {R"({"text":"five","tephra_id":"web/a:5"})",
                                         R"({"tephra_id":"web/a:6","text":"six"})",
                                         R"({"text":"seven", "tephra_id" : "web/a:7" })",
                                         R"({"text":"eight","t\u0065phra_id":"web/a:8"})",
                                         R"({"text":"nine","tephra_id":"web/\"a:9"})"};
  std::string in, want;
  for (const std::string& line : without) {
    in += line + "\n";
    const int64_t row = std::count(in.begin(), in.end(), '\n');
    want +=
        line.substr(0, line.size() - 1) + ",\"tephra_id\":\"in/a:" + std::to_string(row) + "\"}\n";
  }
  for (const std::string& line : with) in += line + "\n", want += line + "\n";
  write_file(scratch / "in/a.jsonl", in + "{\"text\":\"ten\",\"tephra_id\":10}\n");
  StageSettings stage;
  stage.out = scratch / "out";
  stage.on_error = OnError::skip;
  const StageRun run =
      dedup_corpus(corpus_files(std::vector<std::string>{(scratch / "in").string()}),
                   with_preset("native"), stage);
  EXPECT_EQ(read_decompressed(stage.out / "documents/in/a.jsonl.zst", 1 << 20), want);
  EXPECT_EQ(run.tally[counted::kBad], 1) << "as in every other stage";
}

TEST(Dedup, StopsWhenASourceWouldLoseTooMuch) {
  std::mt19937 random(37);
  DedupCorpus corpus;
  corpus.add("web", std::vector<std::string>(20, random_sentence(random, 100)));
  DedupOptions options = with_preset("native");
  options.max_source_loss = 0.9;
  const Error error = error_of([&] { corpus.run("out", options); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_NE(std::string(error.what()).find("source web would lose 95.0 %"), std::string::npos)
      << error.what();
  options.max_source_loss = 1;
  EXPECT_EQ(corpus.run("out", options).tally["kept"], 1);
}

TEST(Dedup, GivesTheSameClustersInLittleMemory) {
  std::mt19937_64 random(41);
  DedupCorpus corpus;
  std::mt19937 words(43);
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i)
    texts.push_back(i % 4 == 3 ? texts.back() : random_sentence(words, 30));
  corpus.add("web", texts);
  DedupOptions options = with_preset("native");
  const std::string plenty = (corpus.run("a", options), corpus.bytes("a"));
  options.memory_bytes = 1;
  EXPECT_EQ((corpus.run("b", options), corpus.bytes("b")), plenty);
}

TEST(Dedup, ShardsMayClusterAtTheSameTimeInLittleMemory) {
  DedupCorpus corpus;
  std::mt19937 words(47);
  std::vector<std::string> texts;
  for (int i = 0; i < 1500; ++i)
    texts.push_back(i % 4 == 3 ? texts.back() : random_sentence(words, 20));
  corpus.add("web", texts);
  corpus.add("books", texts);
  DedupOptions options = with_preset("native");
  const std::string want = (corpus.run("alone", options), corpus.bytes("alone"));
  options.memory_bytes = 1;
  for (const int64_t index : {0, 1, 0}) corpus.run("shards", options, {index, 2});
  for (int again = 0; again < 5; ++again) {  // nothing but the clusters is left to be made twice
    const auto shard = [&](int64_t index) {
      return std::async(std::launch::async, [&, index] {
        return corpus.run("shards", options, {index, 2});
      });
    };
    std::future<StageRun> first = shard(0), second = shard(1);
    first.get();
    second.get();
  }
  EXPECT_EQ((corpus.run("shards", options), corpus.bytes("shards")), want);
}

}  // namespace
}  // namespace tephra
