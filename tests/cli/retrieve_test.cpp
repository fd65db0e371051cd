// SPDX-License-Identifier: Apache-2.0
// tephra retrieve index and query, and bench retrieve, as a person runs them.
#include <gtest/gtest.h>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const Program kRetrieve{TEPHRA_BINARY};

constexpr const char* kStory =
    "Mary went to the kitchen. John picked up the football. The weather was fine.\n"
    "John travelled to the garden. Sandra took the milk.\n";

TEST(RetrieveCommand, IndexesAppendsAndAnswers) {
  const Scratch scratch;
  write_file(scratch / "story.txt", kStory);
  write_file(scratch / "more.jsonl", "{\"id\": \"extra\", \"text\": \"The zebra slept.\"}\n");
  const std::string index = (scratch / "story.index").string();
  const Ran made =
      kRetrieve({"retrieve", "index", (scratch / "story.txt").string(), "--out", index});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("1 documents, 5 chunks, 23 words"), std::string::npos) << made.out;

  const Ran text =
      kRetrieve({"retrieve", "query", "--index", index, "--top", "2", "Where is the football?"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("John picked up the football.\n[...]\nJohn travelled to the garden.\n"),
            std::string::npos)
      << text.out;

  ASSERT_EQ(kRetrieve({"retrieve", "index", (scratch / "more.jsonl").string(), "--out", index,
                       "--append"})
                .code,
            0);
  const Ran json = kRetrieve(
      {"retrieve", "query", "--index", index, "--top", "1", "--json", "What did the zebra do?"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Json answer = Json::parse(json.out, "answer");
  const Json& passage = answer.find("passages")->array().at(0);
  EXPECT_EQ(passage.find("document")->string(), "extra");
  EXPECT_EQ(passage.find("text")->string(), "The zebra slept.");
  const Ran unknown = kRetrieve({"retrieve", "query", "--index", index, "Xylophone?"});
  EXPECT_EQ(unknown.code, 0);
  EXPECT_NE(unknown.err.find("none of the question's words"), std::string::npos) << unknown.err;
}

TEST(RetrieveCommand, SaysWhatIsWrong) {
  const Scratch scratch;
  const std::string index = (scratch / "x.index").string();
  const auto run = [&](const std::string& path) {
    return kRetrieve({"retrieve", "index", path, "--out", index});
  };
  EXPECT_EQ(run((scratch / "absent.txt").string()).code, 2);
  EXPECT_EQ(run(scratch.path().string()).code, 2);  // no documents in it
  write_file(scratch / "empty.txt", "");
  EXPECT_EQ(run((scratch / "empty.txt").string()).code, 3);
  write_file(scratch / "latin.txt", "caf\xe9");
  const Ran latin = run((scratch / "latin.txt").string());
  EXPECT_EQ(latin.code, 3);
  EXPECT_NE(latin.err.find("expected UTF-8, got byte 0xe9 at offset 3"), std::string::npos)
      << latin.err;
  EXPECT_FALSE(std::filesystem::exists(index));
  write_file(scratch / "good.txt", kStory);
  EXPECT_EQ(run((scratch / "good.txt").string()).code, 0);
  const Ran again = run((scratch / "good.txt").string());
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("--append adds to it"), std::string::npos) << again.err;
  std::string other = read_file(index);
  other[8] = 2;
  write_file(index, other);
  const Ran version = kRetrieve({"retrieve", "query", "--index", index, "what?"});
  EXPECT_EQ(version.code, 3);
  EXPECT_NE(version.err.find("expected an index of version 1, got version 2"), std::string::npos)
      << version.err;
  EXPECT_EQ(
      kRetrieve({"retrieve", "index", (scratch / "good.txt").string(), "--out", index, "--append"})
          .code,
      3);
  write_file(scratch / "giant.txt", "a = b\n" + std::string(size_t{2} << 20, 'x') + "\nc = d\n");
  const Ran giant = kRetrieve({"retrieve", "index", (scratch / "giant.txt").string(), "--out",
                               index, "--force", "--chunk", "lines"});
  EXPECT_EQ(giant.code, 3);
  EXPECT_NE(giant.err.find("line 2: expected at most 1.0 MiB, got 2.0 MiB"), std::string::npos)
      << giant.err;
  write_file(index, "not an index");
  EXPECT_EQ(kRetrieve({"retrieve", "query", "--index", index, "what?"}).code, 3);
}

TEST(RetrieveCommand, WarnsWhenNothingFitsTheBudget) {
  const Scratch scratch;
  write_file(scratch / "story.txt", kStory);
  const std::string index = (scratch / "story.index").string();
  ASSERT_EQ(kRetrieve({"retrieve", "index", (scratch / "story.txt").string(), "--out", index,
                       "--chunk", "whole"})
                .code,
            0);
  const Ran none =
      kRetrieve({"retrieve", "query", "--index", index, "--budget", "5", "Where is the football?"});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_NE(none.err.find("no passage fits --budget 5"), std::string::npos) << none.err;
}

TEST(RetrieveCommand, AServerSaysWhatIsWrongWithItsIndexes) {
  const Scratch scratch;
  const Ran bad = kRetrieve({"serve", "--model", scratch.path().string(), "--index", "nonsense"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("--index: expected NAME=FILE, got 'nonsense'"), std::string::npos)
      << bad.err;
}

TEST(RetrieveCommand, BenchesASmallCorpus) {
  const Scratch scratch;
  const std::string plot = (scratch / "cost.svg").string();
  const Ran speed = kRetrieve({"bench", "retrieve", "--speed", "--sizes", "1000,5000",
                               "--questions", "2", "--plot", plot, "--json"});
  ASSERT_EQ(speed.code, 0) << speed.err;
  EXPECT_EQ(Json::parse(speed.out, "speed").find("speed")->array().size(), 2u);
  EXPECT_TRUE(read_file(plot).starts_with("<svg"));
  const Ran quality = kRetrieve(
      {"bench", "retrieve", "--quality", "--stories", "2", "--tasks", "1", "--lines", "300"});
  ASSERT_EQ(quality.code, 0) << quality.err;
  EXPECT_NE(quality.out.find("three-fact stories"), std::string::npos) << quality.out;
}

}  // namespace
}  // namespace tephra
