// SPDX-License-Identifier: Apache-2.0
// Indexes of documents: new ones against old ones without their texts, names of matches, growth,
// and what becomes of an index that is damaged, of another kind or written to at the wrong moment.
#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <random>

#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/dedup/bloom_filter.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/document_sketch.h"
#include "tephra/data/line_reader.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::string made_text(uint32_t seed, int words) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < words; ++i) text += "word" + std::to_string(random() % 20000) + " ";
  return text;
}

// The same text with every n-th word replaced.
std::string edited(const std::string& text, size_t every) {
  std::string out;
  size_t count = 0;
  for (const std::string_view word : split(text, ' ')) {
    out += ++count % every == 0 ? std::string("other") : std::string(word);
    out += ' ';
  }
  return out;
}

struct IndexCorpus {
  Scratch scratch;

  std::string add(const std::string& source, const std::vector<std::string>& texts,
                  const std::string& file = "a.jsonl") const {
    std::string lines;
    for (const std::string& text : texts) {
      Json document;
      document["text"] = text;
      lines += document.dump() + "\n";
    }
    std::filesystem::create_directories(scratch / source);
    write_file(scratch / source / file, lines);
    return (scratch / source).string();
  }

  StageRun run(const std::string& source, const std::string& out, const DedupOptions& options,
               const Shard& shard = {}) const {
    StageSettings stage;
    stage.out = scratch / out;
    stage.shard = shard;
    join_ranks(stage);
    return dedup_corpus(corpus_files(std::vector<std::string>{(scratch / source).string()}),
                        options, stage);
  }

  DedupOptions options(const char* against, const char* save) const {
    DedupOptions options;
    options.preset = signature_preset("native");
    options.max_source_loss = 1;
    if (against != nullptr) options.against_index = scratch / against;
    if (save != nullptr) options.save_index = scratch / save;
    return options;
  }

  std::vector<Json> removed(const std::string& out, const std::string& source) const {
    std::vector<Json> rows;
    const std::string lines =
        read_decompressed(scratch / out / "removed" / source / "a.jsonl.zst", 1 << 24);
    for (const std::string_view line : split(lines, '\n')) {
      if (!line.empty()) rows.push_back(Json::parse(line, "removed"));
    }
    return rows;
  }
};

std::vector<std::string> made_texts(uint32_t first, int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back(made_text(first + static_cast<uint32_t>(i), 120));
  return texts;
}

TEST(DedupIndex, NamesWhatNewDocumentsResembleWithoutTheOldTexts) {
  const IndexCorpus corpus;
  const std::vector<std::string> old = made_texts(1, 40);
  corpus.add("old", old);
  EXPECT_EQ(corpus.run("old", "first", corpus.options(nullptr, "index")).tally["kept"], 40);
  std::filesystem::remove_all(corpus.scratch / "old");  // and its output
  std::filesystem::remove_all(corpus.scratch / "first");
  std::vector<std::string> fresh = made_texts(1000, 20);
  fresh.push_back(old[7]);               // a copy
  fresh.push_back(edited(old[30], 60));  // a near copy
  fresh.push_back(edited(old[31], 6));   // no longer one
  fresh.push_back(fresh[3]);             // a copy within the new ones
  corpus.add("new", fresh);
  const StageRun run = corpus.run("new", "second", corpus.options("index", "index"));
  EXPECT_EQ(run.tally["known"], 2);
  EXPECT_EQ(run.tally["source.new.known"], 2);
  EXPECT_EQ(run.tally["removed"], 1);
  EXPECT_EQ(run.tally["kept"], 21);
  const std::vector<Json> rows = corpus.removed("second", "new");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].find("id")->string(), "new/a:21");
  EXPECT_EQ(rows[0].find("kept")->string(), "old/a:8");
  EXPECT_EQ(rows[0].find("similarity")->number(), 1);
  EXPECT_EQ(rows[1].find("kept")->string(), "old/a:31");
  EXPECT_GT(rows[1].find("similarity")->number(), 0.8);
  EXPECT_EQ(rows[2].find("kept")->string(), "new/a:4");
  // The new ones are in the index now, too.
  corpus.add("newer", {fresh[5], old[2]});
  EXPECT_EQ(corpus.run("newer", "third", corpus.options("index", nullptr)).tally["known"], 2);
  EXPECT_EQ(corpus.removed("third", "newer")[0].find("kept")->string(), "new/a:6");
  const IndexManifest manifest = IndexManifest::read(corpus.scratch / "index" / kIndexFile);
  ASSERT_EQ(manifest.segments.size(), 2u);
  EXPECT_EQ(manifest.segments[1].documents, 21);
}

TEST(DedupIndex, GivesTheSameBytesOnAnyThreadsAndMemory) {
  const IndexCorpus corpus;
  corpus.add("old", made_texts(1, 300));
  std::vector<std::string> fresh = made_texts(200, 300);  // a third of it known
  corpus.add("new", fresh);
  const int before = num_threads();
  std::string first;
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    const std::string index = "index" + std::to_string(threads),
                      out = "o" + std::to_string(threads);
    corpus.run("old", "old" + std::to_string(threads), corpus.options(nullptr, index.c_str()));
    DedupOptions options = corpus.options(index.c_str(), index.c_str());
    if (threads == 7) options.memory_bytes = 1;
    const StageRun run = corpus.run("new", out, options);
    EXPECT_EQ(run.tally["known"], 101);
    std::string bytes = run.tally.to_json().dump();
    for (const auto& part : {"documents", "removed"}) {
      bytes += read_file(corpus.scratch / out / part / "new" / "a.jsonl.zst");
    }
    bytes += read_file(corpus.scratch / index / kIndexFile);
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << threads;
  }
  set_num_threads(before);
}

// Texts of which a key is shared by more than are looked at.
std::vector<std::string> near_copies(uint32_t seed, size_t count) {
  std::vector<std::string> texts;
  const std::string text = made_text(seed, 400);
  for (size_t i = 0; i < count; ++i) texts.push_back(edited(text, 100 + i));
  return texts;
}

TEST(DedupIndex, GivesTheSameBytesToRanks) {
  const IndexCorpus corpus;
  std::vector<std::string> old = made_texts(1, 100), copies = near_copies(90001, 150);
  old.insert(old.end(), copies.begin(), copies.begin() + 120);
  corpus.add("old", old);
  for (int file = 0; file < 5; ++file) {
    std::vector<std::string> fresh = made_texts(static_cast<uint32_t>(50 + 40 * file), 50);
    fresh.push_back(copies[static_cast<size_t>(121 + file)]);
    fresh.push_back(edited(old[static_cast<size_t>(file)], 50));
    corpus.add("new", fresh, std::string(1, static_cast<char>('a' + file)) + ".jsonl");
  }
  for (const IndexKind kind : {IndexKind::full, IndexKind::bloom}) {
    const std::string name = kind == IndexKind::full ? "full" : "bloom";
    DedupOptions options = corpus.options(nullptr, name.c_str());
    options.index.kind = kind;
    options.similarity = 1.0;  // all near copies stay
    corpus.run("old", "old-" + name, options);
    options = corpus.options(name.c_str(), nullptr);
    const auto bytes_of_run = [&](const std::string& out, const StageRun& run) {
      std::string bytes = run.tally.to_json().dump();
      for (const char* part : {"documents", "removed"}) {
        for (const char* file : {"a", "b", "c", "d", "e"}) {
          bytes +=
              read_file(corpus.scratch / out / part / "new" / (file + std::string(".jsonl.zst")));
        }
      }
      return bytes;
    };
    const StageRun alone = corpus.run("new", name + "-1", options);
    EXPECT_GT(alone.tally["known"], 60);
    EXPECT_GT(alone.tally["removed"], 0);
    EXPECT_EQ(alone.tally["unchecked"] > 0, kind == IndexKind::full);
    const std::string want = bytes_of_run(name + "-1", alone);
    for (const int64_t count : {2, 4}) {
      const std::string out = format("{}-{}", name, count);
      options.memory_bytes = count == 2 ? 1 : int64_t{4} << 30;
      std::vector<std::future<StageRun>> running;
      for (int64_t rank = 0; rank < count; ++rank) {
        running.push_back(std::async(std::launch::async, [&, rank] {
          return corpus.run("new", out, options, {rank, count, true});
        }));
      }
      std::vector<StageRun> runs;
      for (auto& each : running) runs.push_back(each.get());
      EXPECT_EQ(bytes_of_run(out, runs[0]), want) << out;
    }
  }
}

TEST(DedupIndex, AddsTheSameDocumentsOnce) {
  const IndexCorpus corpus;
  corpus.add("old", made_texts(1, 30));
  corpus.run("old", "a", corpus.options(nullptr, "index"));
  const std::string manifest = read_file(corpus.scratch / "index" / kIndexFile);
  // As after a kill between the index and the report: the run is done once more.
  corpus.run("old", "b", corpus.options(nullptr, "index"));
  EXPECT_EQ(read_file(corpus.scratch / "index" / kIndexFile), manifest);
  // A run that adds to the index it compares with goes on with the index that it began with.
  corpus.add("new", made_texts(500, 10));
  corpus.run("new", "c", corpus.options("index", "index"));
  std::filesystem::create_directories(corpus.scratch / "d" / ".dedup");
  write_file(corpus.scratch / "d" / ".dedup" / kIndexFile, manifest);
  EXPECT_EQ(corpus.run("new", "d", corpus.options("index", "index")).tally["known"], 0);
  EXPECT_EQ(IndexManifest::read(corpus.scratch / "index" / kIndexFile).segments.size(), 2u);
}

TEST(DedupIndex, RefusesWhatIsDamagedForeignOrOfAnotherVersion) {
  const IndexCorpus corpus;
  corpus.add("old", made_texts(1, 30));
  corpus.run("old", "a", corpus.options(nullptr, "index"));
  corpus.add("new", made_texts(1, 5));
  int tries = 0;
  const auto refused = [&] {
    return error_of([&] {
      corpus.run("new", "x" + std::to_string(++tries), corpus.options("index", nullptr));
    });
  };
  const Path file = corpus.scratch / "index" / kIndexFile;
  const std::string manifest = read_file(file);
  const std::string name = IndexManifest::read(file).segments[0].name;
  for (const char* part : {kBandsFile, kDocumentsFile}) {
    const Path path = corpus.scratch / "index" / name / part;
    const std::string good = read_file(path);
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
    write_file(path, bad);
    EXPECT_NE(std::string(refused().what()).find("is damaged"), std::string::npos);
    write_file(path, good.substr(0, good.size() / 2));
    EXPECT_EQ(refused().fault(), Fault::data);
    write_file(path, good);
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = manifest;
    text.replace(text.find(from), from.size(), to);
    write_file(file, text);
    return refused();
  };
  EXPECT_NE(std::string(with("\"version\": 1", "\"version\": 0").what()).find("version 1"),
            std::string::npos);
  EXPECT_EQ(with("tephra dedup index", "something else").fault(), Fault::data);
  EXPECT_EQ(with("{", "[").fault(), Fault::data);
  EXPECT_NE(std::string(with("\"native\"", "\"zyda1\"").what()).find("--preset zyda1"),
            std::string::npos);
  write_file(file, manifest);
  std::filesystem::remove_all(corpus.scratch / "index" / name);
  EXPECT_EQ(exit_code(refused().fault()), 2);
  std::filesystem::remove(file);
  EXPECT_NE(std::string(refused().what()).find("holds no dedup index"), std::string::npos);
}

TEST(DedupIndex, OfFiltersKnowsWhatItSawAndRefusesAnotherKind) {
  const IndexCorpus corpus;
  const std::vector<std::string> old = made_texts(1, 200);
  corpus.add("old", old);
  DedupOptions options = corpus.options(nullptr, "index");
  options.index = {IndexKind::bloom, 1e-4};
  corpus.run("old", "a", options);
  std::vector<std::string> fresh = made_texts(5000, 200);
  fresh.insert(fresh.end(), old.begin(), old.begin() + 50);
  corpus.add("new", fresh);
  const StageRun run = corpus.run("new", "b", corpus.options("index", nullptr));
  EXPECT_EQ(run.tally["known"], 50);
  EXPECT_TRUE(corpus.removed("b", "new")[0].find("kept")->is_null());
  const Error error = error_of([&] { corpus.run("new", "c", corpus.options(nullptr, "index")); });
  EXPECT_NE(std::string(error.what()).find("--index-kind bloom"), std::string::npos);
}

TEST(BloomFilter, ForgetsNothingAndClaimsNoMoreThanItsRate) {
  std::mt19937_64 random(5);
  for (const auto& [rate, many] :
       {std::pair(0.1, 20000), {1e-2, 20000}, {1e-3, 20000}, {1e-3, 50}}) {
    constexpr int kOthers = 300000;
    const BloomShape shape = BloomShape::of(static_cast<uint64_t>(many), rate);
    std::vector<uint64_t> words(shape.bits / 64), keys;
    for (int i = 0; i < many; ++i) keys.push_back(random());
    for (const uint64_t key : keys) BloomFilter::add(shape, words, key);
    const BloomFilter filter(shape, words);
    for (const uint64_t key : keys) ASSERT_TRUE(filter.holds(key));
    double claimed = 0;
    for (int i = 0; i < kOthers; ++i) claimed += filter.holds(random());
    // The rounding of probes costs up to a tenth; four standard errors.
    EXPECT_LT(claimed / kOthers, 1.1 * rate + 4 * std::sqrt(rate / kOthers)) << rate;
    EXPECT_GT(claimed / kOthers, 0.25 * rate) << rate;
  }
}

TEST(DocumentSketch, EstimatesTheSimilarityOfLongTexts) {
  Signer signer(signature_preset("native"));
  std::vector<uint32_t> a, b;
  std::vector<uint64_t> exact_a, exact_b;
  double worst = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::string text = made_text(seed, 3000), other = edited(text, 10 + 10 * seed);
    make_sketch(signer, text, a);
    make_sketch(signer, other, b);
    signer.shingle_set(text, 1 << 20, exact_a);
    signer.shingle_set(other, 1 << 20, exact_b);
    const double truth = set_similarity(exact_a, exact_b, size_t{1} << 20);
    worst = std::max(worst, std::abs(sketch_similarity(a, b) - truth));
  }
  EXPECT_LT(worst, 4 * 0.022);
  EXPECT_GT(worst, 0);
}

}  // namespace
}  // namespace tephra
