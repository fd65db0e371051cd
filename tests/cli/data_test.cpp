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
