// SPDX-License-Identifier: Apache-2.0
// The data commands as a person runs them.
#include <gtest/gtest.h>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const std::string kTokenizer = TEPHRA_GOLDEN_DIR "/tokenizer-byte-level";

Ran data(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "data");
  return Program{.path = TEPHRA_BINARY}(arguments);
}

TEST(DataTokenize, WritesAShardAndSaysWhatIsInIt) {
  const Scratch scratch;
  const std::string input = (scratch / "a.jsonl").string(), out = (scratch / "s" / "a").string();
  write_file(input, "{\"text\": \"hello\"}\n{\"text\": \"world\"}\n");
  const std::vector<std::string> words = {"tokenize", input, "--tokenizer", kTokenizer,
                                          "--out",    out,   "--json"};
  const Ran ran = data(words);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_EQ(json.find("documents")->integer(), 2);
  EXPECT_EQ(json.find("text_bytes")->integer(), 10);
  EXPECT_EQ(ran.err, "");
  const Ran again = data(words);
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("done before"), std::string::npos) << again.err;
  EXPECT_EQ(Json::parse(again.out, "stdout").find("documents")->integer(), 2);
  write_file(input, "{\"text\": \"other\"}\n");
  const Ran other = data(words);
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("--overwrite"), std::string::npos) << other.err;
}

TEST(DataTokenize, EndsByWhoseFaultItIs) {
  const Scratch scratch;
  const std::string out = (scratch / "a").string();
  const auto with = [&](const std::string& input) {
    return data({"tokenize", input, "--tokenizer", kTokenizer, "--out", out});
  };
  EXPECT_EQ(with((scratch / "none.txt").string()).code, 2);
  write_file(scratch / "a.jsonl", "{\"text\": 1}\n");
  const Ran bad = with((scratch / "a.jsonl").string());
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.err.find("a.jsonl:1: key 'text': expected a string"), std::string::npos) << bad.err;
  write_file(scratch / "a.md", "text");
  const Ran kind = with((scratch / "a.md").string());
  EXPECT_EQ(kind.code, 2);
  EXPECT_NE(kind.err.find("try: rename it to .txt"), std::string::npos) << kind.err;
}

TEST(DataTokenize, SkipsWhatCannotBeReadAndSaysSo) {
  const Scratch scratch;
  write_file(scratch / "a.jsonl", "{\"text\": \"one\"}\nnonsense\n{\"text\": \"two\"}\n");
  write_file(scratch / "b.jsonl.gz", "no gzip");
  const std::vector<std::string> words = {"tokenize",
                                          (scratch / "a.jsonl").string(),
                                          (scratch / "b.jsonl.gz").string(),
                                          "--tokenizer",
                                          kTokenizer,
                                          "--out",
                                          (scratch / "s").string(),
                                          "--on-error",
                                          "skip",
                                          "--json"};
  const Ran ran = data(words);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_EQ(json.find("documents")->integer(), 2);
  EXPECT_EQ(json.find("counts")->find("bad_documents")->integer(), 1);
  EXPECT_EQ(json.find("counts")->find("damaged_files")->integer(), 1);
  EXPECT_EQ(json.find("errors")->array().size(), 2u);
  EXPECT_NE(ran.err.find("1 files could not be read to their end"), std::string::npos) << ran.err;
}

TEST(DataTokenize, MakesAShardByShards) {
  const Scratch scratch;
  for (const char* name : {"a.txt", "b.txt", "c.txt"}) write_file(scratch / name, name);
  const auto with = [&](const std::string& out, std::vector<std::string> more) {
    std::vector<std::string> words = {"tokenize"};
    for (const char* name : {"a.txt", "b.txt", "c.txt"}) words.push_back((scratch / name).string());
    words.insert(words.end(), {"--tokenizer", kTokenizer, "--out", (scratch / out).string()});
    words.insert(words.end(), more.begin(), more.end());
    return data(words);
  };
  EXPECT_EQ(with("one", {}).code, 0);
  for (const char* shard : {"0/2", "1/2"}) {
    const Ran ran = with("two", {"--shard", shard});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_NE(ran.err.find("the same command without --shard joins them"), std::string::npos);
  }
  EXPECT_EQ(with("two", {"--shard", "0/2", "--overwrite"}).code, 2);
  EXPECT_EQ(with("two", {}).code, 0);
  EXPECT_EQ(read_file(scratch / "two.bin"), read_file(scratch / "one.bin"));
  EXPECT_EQ(read_file(scratch / "two.idx"), read_file(scratch / "one.idx"));
}

TEST(DataEnvironments, ListsShowsAndChecks) {
  const Ran list = data({"environments", "list", "--json"});
  EXPECT_GE(Json::parse(list.out, "stdout").array().size(), 15u);
  const Ran show = data({"environments", "show", "addition", "--level", "3", "--seed", "1"});
  EXPECT_EQ(show.code, 0);
  EXPECT_EQ(show.out.rfind("What is 224 + 6930?\n4+0=4, write 4 carry 0\n", 0), 0u) << show.out;
  EXPECT_NE(show.out.find("\nAnswer: 7154\n"), std::string::npos) << show.out;
  const std::vector<std::string> words = {"environments", "show", "addition", "--level", "3",
                                          "--seed",       "1",    "--answer"};
  std::vector<std::string> right = words, wrong = words;
  right.emplace_back("7154");
  wrong.emplace_back("7153");
  EXPECT_EQ(data(right).code, 0);
  EXPECT_EQ(data(wrong).code, 3);
  EXPECT_EQ(data({"environments", "show"}).code, 2);
  EXPECT_EQ(data({"environments", "show", "adition"}).code, 2);
}

}  // namespace
}  // namespace tephra
