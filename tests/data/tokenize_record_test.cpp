// SPDX-License-Identifier: Apache-2.0
// Whose a token shard is: done, begun, damaged, another command's, another process's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "tests/data/token_corpus.h"
#include "tests/support/file_limit.h"

namespace tephra {
namespace {

using Texts = std::vector<std::string>;

TEST(Tokenize, KnowsAShardThatItMade) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  corpus.tokenize({"a.txt"});
  const std::vector<Path> files = {corpus.scratch / "a.txt"};
  const auto record = [&](const TokenizeOptions& options) {
    return ShardRecord(files, corpus.scratch / "out", options);
  };
  const int64_t vocab = test_tokenizer()->vocab_size();
  EXPECT_EQ(record({}).done(vocab)->report.documents, 1);
  EXPECT_FALSE(record({.append_eos = true}).done(vocab));
  EXPECT_EQ(error_of([&] { record({.append_eos = true}).check_replaceable(); }).fault(),
            Fault::usage);
  corpus.put("a.txt", "two");
  EXPECT_FALSE(record({}).done(vocab));
  EXPECT_EQ(error_of([&] { record({}).check_replaceable(); }).fault(), Fault::usage);
  // Killed when the new shard had its name and no record yet.
  corpus.tokenize({"a.txt"});
  std::filesystem::remove(corpus.scratch / "out.made.json");
  EXPECT_EQ(error_of([&] { record({}).check_replaceable(); }).fault(), Fault::usage);
  record({}).write_progress({});
  record({}).check_replaceable();
  ShardRecord::check_settings(corpus.scratch / "out", {});
  corpus.tokenize({"a.txt"});
  EXPECT_TRUE(record({}).done(vocab));
  EXPECT_FALSE(std::filesystem::exists(corpus.scratch / "out.journal"));
}

// A second process neither calls it done nor touches what the first one writes.
TEST(Tokenize, AsksWhoseAShardIsWhenNobodyWritesIt) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  corpus.tokenize({"a.txt"});
  for (const char* suffix : {".bin", ".idx", ".made.json"}) {
    std::filesystem::rename(corpus.path(std::string("out") + suffix),
                            corpus.path(std::string("b") + suffix));
  }
  for (const char* suffix : {".bin.partial", ".journal"})
    corpus.put(std::string("b") + suffix, "x");
  const int other = ::open(corpus.path(".b.lock").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  for (const bool overwrite : {false, true}) {
    const Error error = error_of([&] { corpus.make("a.txt", {}, overwrite, "b"); });
    EXPECT_NE(std::string(error.what()).find("another process writes"), std::string::npos);
    EXPECT_TRUE(corpus.has("b.bin.partial") && corpus.has("b.journal"));
  }
  ::close(other);
  EXPECT_FALSE(corpus.make("a.txt", {}, false, "b").made);
  EXPECT_FALSE(corpus.has("b.bin.partial") || corpus.has("b.journal"));
}

TEST(Tokenize, MakesADamagedShardAnew) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one and two");
  EXPECT_TRUE(corpus.make("a.txt").made);
  EXPECT_FALSE(corpus.make("a.txt").made);
  EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
  for (const char* name : {"out.bin", "out.idx"}) {
    std::filesystem::resize_file(corpus.scratch / name, 1);
    EXPECT_TRUE(corpus.make("a.txt").made) << name;
    EXPECT_EQ(corpus.documents(), Texts{"one and two"});
  }
  for (const char* record : {"{\"sta", "{}\n", ""}) {
    corpus.put("out.made.json", record);
    EXPECT_NE(corpus.refused("a.txt").find("--overwrite"), std::string::npos);
    EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
  }
}

TEST(Tokenize, LeavesTokensOfOthersAlone) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  corpus.put("out.bin", "not ours");
  EXPECT_NE(corpus.refused("a.txt").find("out.bin: exists"), std::string::npos);
  EXPECT_EQ(read_file(corpus.scratch / "out.bin"), "not ours");
  EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
}

TEST(Tokenize, LeavesAnotherCommandsProgressAlone) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  corpus.record("a.txt", {.append_eos = true}).write_progress({});
  const std::string journal = read_file(corpus.scratch / "out.journal");
  const std::string said = corpus.refused("a.txt");
  EXPECT_NE(said.find("did not end | repeat the command"), std::string::npos) << said;
  EXPECT_EQ(error_of([&] { ShardRecord::check_settings(corpus.scratch / "out", {}); }).fault(),
            Fault::usage);
  EXPECT_EQ(read_file(corpus.scratch / "out.journal"), journal);
  EXPECT_TRUE(corpus.make("a.txt", {}, true).made);
  // Nor is it lost where the shard that it would replace is asked for.
  corpus.record("a.txt", {.append_eos = true}).write_progress({});
  EXPECT_FALSE(corpus.make("a.txt").made);
  EXPECT_EQ(read_file(corpus.scratch / "out.journal"), journal);
}

// Killed when the tokens had their name, then again before the first new journal.
TEST(Tokenize, KeepsItsNameThroughTwoKills) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  corpus.put("out.bin", "tokens");
  ShardProgress at;
  at.report.documents = at.report.tokens = 1;
  const ShardRecord record = corpus.record("a.txt");
  record.write_progress(at);
  EXPECT_EQ(record.begin(test_tokenizer()->vocab_size()).at.report.documents, 0);
  record.check_replaceable();
  EXPECT_TRUE(corpus.make("a.txt").made);
  EXPECT_EQ(corpus.documents(), Texts{"one"});
}

TEST(Tokenize, AFullDiskLeavesTheShardThatWasThereAndItsRecord) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "a\n";
  corpus.put("b.txt", lines);
  corpus.make("a.txt");
  const Error error = error_of([&] {
    const FileLimit limit(10'000);  // enough for the tokens, not for their index
    corpus.make("b.txt", {.split = TextSplit::line}, true);
  });
  EXPECT_EQ(error.fault(), Fault::data) << error.what();
  EXPECT_FALSE(corpus.make("a.txt").made);
  EXPECT_EQ(corpus.documents(), Texts{"one"});
}

TEST(Tokenize, TakesAwayFilesThatAKillLeftUnnamed) {
  const TokenCorpus corpus;
  corpus.put("a.txt", "one");
  for (const char* name : {".out.idx.12-0.tmp", ".out.made.json.7-1.tmp", ".out.journal.7-2.tmp",
                           ".out2.idx.1-0.tmp", ".out.idx.mine.tmp"}) {
    corpus.put(name, "x");
  }
  corpus.make("a.txt");
  EXPECT_EQ(corpus.scratch.names(), (Texts{".out.idx.mine.tmp", ".out.lock", ".out2.idx.1-0.tmp",
                                           "a.txt", "out.bin", "out.idx", "out.made.json"}));
}

}  // namespace
}  // namespace tephra
