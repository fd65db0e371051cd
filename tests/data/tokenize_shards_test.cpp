// SPDX-License-Identifier: Apache-2.0
// A token shard that several processes make together, as shards or as ranks.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>

#include "tests/data/quick_ranks.h"
#include "tests/data/token_corpus.h"
#include "tests/support/compress.h"
#include "tests/support/file_limit.h"

namespace tephra {
namespace {

using Texts = std::vector<std::string>;

// Files of very different sizes, one that is damaged, and a whole shard to compare with.
struct SharedCorpus : TokenCorpus {
  std::vector<Path> files;
  TokenizeOptions options{.append_eos = true, .on_error = OnError::skip};
  TokenizeReport whole;

  SharedCorpus() {
    for (int f = 0; f < 9; ++f) {
      std::string lines;
      for (int i = 0; i < 40 * f * f; ++i) {
        lines +=
            i % 100 == 5 ? "nonsense\n" : "{\"text\": \"" + std::to_string(i * 7919 + f) + "\"}\n";
      }
      const std::string name = format("{}.jsonl.gz", f);
      put(name, f == 6 ? cut_off(gzipped(lines)) : gzipped(lines));
      files.push_back(scratch / name);
    }
    options.window_bytes = 2000;
    options.journal_bytes = 500;
    whole = make({}, "whole").report;
    EXPECT_EQ(whole.troubles[counted::kDamaged], 1);
  }
  NamedShard make(const Shard& shard, const std::string& out, bool overwrite = false,
                  const std::shared_ptr<Ranks>& ranks = nullptr) const {
    TokenizeOptions own = options;
    own.shard = shard;
    own.ranks = ranks;
    return make_shard(files, *test_tokenizer(), scratch / out, own, overwrite);
  }
  std::string bytes(const std::string& out) const {
    return read_file(scratch / (out + ".bin")) + read_file(scratch / (out + ".idx")) +
           read_file(scratch / (out + ".made.json"));
  }
  void expect_whole(const std::string& out) const {
    EXPECT_TRUE(bytes(out) == bytes("whole")) << out;
    EXPECT_FALSE(has(out + ".parts") || has(out + ".journal")) << out;
  }
};

TEST(Tokenize, ShardsAreJoinedToTheBytesOfOneProcess) {
  const SharedCorpus corpus;
  for (const int64_t count : {1, 2, 3, 7, 20}) {
    const std::string out = format("of{}", count);
    for (int64_t index = count; index-- > 0;) {
      EXPECT_EQ(corpus.make({index, count}, out).complete, count == 1);
    }
    EXPECT_TRUE(corpus.make({}, out).complete);
    corpus.expect_whole(out);
  }
}

TEST(Tokenize, WhatShardsHaveNotDoneIsMadeByWhoJoins) {
  const SharedCorpus corpus;
  corpus.make({2, 4}, "out");
  const Error error = error_of([&] { corpus.make({1, 3}, "out"); });
  EXPECT_NE(std::string(error.what()).find("holds the work of 4 shards, not of 3"),
            std::string::npos)
      << error.what();
  // What a shard made was damaged since: it is not taken, and made anew.
  for (const char* name : {"2.bin", "2.idx"}) {
    corpus.make({2, 4}, "out");
    const Path part = corpus.scratch / "out.parts" / name;
    std::string bytes = read_file(part);
    bytes[7] ^= 1;
    write_file(part, bytes);
    EXPECT_EQ(error_of([&] { corpus.make({}, "out"); }).fault(), Fault::data) << name;
  }
  EXPECT_TRUE(corpus.make({}, "out").complete);
  corpus.expect_whole("out");
}

// So many threads at once; what each throws, or nothing.
std::vector<std::string> in_threads(int64_t count, const std::function<void(int64_t)>& work) {
  std::latch begin(count);
  std::vector<std::future<std::string>> all;
  for (int64_t index = 0; index < count; ++index) {
    all.push_back(std::async(std::launch::async, [&, index] {
      begin.arrive_and_wait();
      try {
        work(index);
        return std::string();
      } catch (const std::exception& error) {
        return std::string(error.what());
      }
    }));
  }
  std::vector<std::string> said;
  for (auto& each : all) said.push_back(each.get());
  return said;
}

std::vector<std::string> start_shards(const SharedCorpus& corpus, int64_t count,
                                      const std::string& out) {
  return in_threads(count, [&](int64_t index) { corpus.make({index, count}, out); });
}

TEST(Tokenize, ShardsMayBeginAtTheSameTime) {
  const SharedCorpus corpus;
  for (int round = 0; round < 8; ++round) {
    const std::string out = format("round{}", round);
    EXPECT_EQ(start_shards(corpus, 4, out), Texts(4));
    for (const int part : {1, 2, 3}) EXPECT_TRUE(corpus.has(format("{}.parts/{}.idx", out, part)));
    EXPECT_TRUE(corpus.make({}, out).complete);
    corpus.expect_whole(out);
  }
}

TEST(Tokenize, LeavesThePartsOfAnotherCommandAlone) {
  SharedCorpus corpus;
  corpus.make({2, 4}, "out");
  const std::vector<std::string> names = corpus.scratch.names();
  const std::string part = read_file(corpus.scratch / "out.parts/2.bin");
  corpus.options.append_eos = false;
  for (const Shard& shard : {Shard{0, 4}, Shard{2, 4}, Shard{1, 2}, Shard{}}) {
    const Error error = error_of([&] { corpus.make(shard, "out"); });
    EXPECT_EQ(error.fault(), Fault::usage) << error.what();
    EXPECT_NE(std::string(error.what()).find("out.parts: holds the work"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(error_of([&] {
              ShardRecord::check_settings(corpus.scratch / "out", corpus.options);
            }).fault(),
            Fault::usage);
  EXPECT_EQ(corpus.scratch.names(), names);
  EXPECT_EQ(read_file(corpus.scratch / "out.parts/2.bin"), part);
  corpus.options.append_eos = true;
  EXPECT_TRUE(corpus.make({}, "out").complete);
  corpus.expect_whole("out");
  // Nor are they lost where the shard that they would replace is asked for.
  corpus.options.append_eos = false;
  corpus.make({2, 4}, "other");
  std::filesystem::rename(corpus.scratch / "other.parts", corpus.scratch / "out.parts");
  corpus.options.append_eos = true;
  EXPECT_FALSE(corpus.make({}, "out").made);
  EXPECT_TRUE(corpus.has("out.parts/2.bin"));
  EXPECT_TRUE(corpus.make({}, "out", true).made);
  corpus.expect_whole("out");
}

std::string with_more_text(std::string record) {
  const std::string key = "\"text_bytes\": ";
  return record.insert(record.find(key) + key.size(), "1");
}

TEST(Tokenize, TakesNoCountsThatWereEdited) {
  const SharedCorpus corpus;
  for (const Shard& next : {Shard{2, 4}, Shard{}}) {  // who makes the part anew
    corpus.make({2, 4}, "out");
    const Path record = corpus.scratch / "out.parts/2.made.json";
    write_file(record, with_more_text(read_file(record)));
    corpus.make(next, "out");
  }
  corpus.expect_whole("out");
  const Path record = corpus.scratch / "out.made.json";
  write_file(record, with_more_text(read_file(record)));
  EXPECT_EQ(error_of([&] { corpus.make({}, "out"); }).fault(), Fault::usage);
}

std::vector<std::string> run_ranks(const SharedCorpus& corpus, int64_t count,
                                   const std::string& out, bool overwrite = false) {
  return in_threads(count, [&](int64_t index) {
    const Shard shard{index, count, true};
    const auto ranks =
        std::make_shared<Ranks>(corpus.scratch / (out + ".ranks"), shard, "", kQuickRanks);
    corpus.make(shard, out, overwrite, ranks);
    ranks->gather("the end");
  });
}

TEST(Tokenize, RanksLeaveTheBytesOfOneProcess) {
  const SharedCorpus corpus;
  for (const int64_t count : {2, 4, 12}) {
    const std::string out = format("by{}", count);
    for (const bool overwrite : {false, false, true}) {
      EXPECT_EQ(run_ranks(corpus, count, out, overwrite), Texts(static_cast<size_t>(count)));
      corpus.expect_whole(out);
    }
  }
}

// Stopped by a full disk again and again, with other numbers of ranks, and alone.
TEST(Tokenize, RanksGoOnWhereOthersWereStopped) {
  const SharedCorpus corpus;
  const size_t size = read_file(corpus.scratch / "whole.bin").size();
  for (const size_t percent : {10, 20, 35, 60, 90}) {
    const std::string out = format("stopped{}", percent);
    for (const int64_t count : {3, 3, 1, 2}) {
      const FileLimit limit(1500 + size * percent / 100);
      if (count == 1) {
        error_of([&] { corpus.make({}, out); });
      } else {
        EXPECT_NE(run_ranks(corpus, count, out), Texts(static_cast<size_t>(count)));
      }
    }
    EXPECT_EQ(run_ranks(corpus, 2, out), Texts(2));
    corpus.expect_whole(out);
  }
}

}  // namespace
}  // namespace tephra
