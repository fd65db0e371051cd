// SPDX-License-Identifier: Apache-2.0
// The memory commands as a person runs them.
#include <gtest/gtest.h>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Ran memory(std::vector<std::string> arguments, std::string input = {}) {
  arguments.insert(arguments.begin(), "memory");
  return Program{.path = TEPHRA_BINARY, .input = std::move(input)}(arguments);
}

constexpr const char* kLines =
    "{\"time\": \"2023-03-05T10:00:00\", \"speaker\": \"Ann\", \"text\": \"The ferry was late.\"}\n"
    "\n"
    "{\"time\": \"2023-03-05T10:01:00\", \"role\": \"Ben\", \"content\": \"A pity.\"}\n"
    "{\"time\": \"2023-03-10T18:00:00\", \"speaker\": \"Ann\", \"text\": \"I bought a "
    "telescope.\"}\n";

TEST(MemoryCommands, AddAndFindAgain) {
  const Scratch scratch;
  const std::string file = (scratch / "chat.tmem").string();
  const Ran added = memory({"add", file, "--lines", "-"}, kLines);
  ASSERT_EQ(added.code, 0) << added.err;
  EXPECT_EQ(added.out, file + ": 3 added, 3 turns in 2 sessions\n");
  const Ran one = memory({"add", file, "--speaker", "Ben", "--text", "What do you see?", "--time",
                          "2023-03-10T18:01:00", "--json"});
  ASSERT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(Json::parse(one.out, "stdout").find("session")->integer(), 2);

  const Ran asked = memory({"query", file, "What did we talk about five days ago?"});
  ASSERT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(asked.out,
            "[0] session 1, 2023-03-05T10:00:00  Ann: The ferry was late.\n"
            "[1] session 1, 2023-03-05T10:01:00  Ben: A pity.\n");
  EXPECT_NE(asked.err.find("five days ago' is"), std::string::npos) << asked.err;

  const Ran json =
      memory({"query", file, "What did Ann say about a telescope in March?", "--json"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Json answer = Json::parse(json.out, "stdout");
  EXPECT_EQ(answer.find("turns")->array().at(0).find("response")->integer(), 2);
  EXPECT_EQ(answer.find("chain")->array().at(0).find("column")->string(), "month");
}

TEST(MemoryCommands, AVagueQuestionIsReadAfterTheTurnsBeforeIt) {
  const Scratch scratch;
  const std::string file = (scratch / "chat.tmem").string(),
                    before = (scratch / "b.jsonl").string();
  ASSERT_EQ(memory({"add", file, "--lines", "-"}, kLines).code, 0);
  write_file(before, "{\"speaker\": \"Ann\", \"text\": \"We spoke on March 10th.\"}\n");
  const Ran asked = memory({"query", file, "What was it about?", "--before", before});
  ASSERT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(asked.out, "[2] session 2, 2023-03-10T18:00:00  Ann: I bought a telescope.\n");
}

TEST(MemoryCommands, EndByWhoseFaultItIs) {
  const Scratch scratch;
  const std::string file = (scratch / "chat.tmem").string();
  EXPECT_EQ(memory({"query", file, "What?"}).code, 2);
  ASSERT_EQ(memory({"add", file, "--lines", "-"}, kLines).code, 0);
  const Ran backwards =
      memory({"add", file, "--speaker", "Ann", "--text", "x", "--time", "2023-01-01"});
  EXPECT_EQ(backwards.code, 3);
  EXPECT_NE(backwards.err.find("the clock runs backwards"), std::string::npos) << backwards.err;
  EXPECT_EQ(memory({"add", file, "--speaker", "Ann", "--text", "x", "--time", "soon"}).code, 2);
  const Ran bad = memory({"add", file, "--lines", "-"}, "{\"speaker\": \"Ann\"}\n");
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.err.find("stdin:1: key 'text'"), std::string::npos) << bad.err;
  EXPECT_EQ(memory({"add", file, "--lines", "-"}, "").code, 3);
}

TEST(MemoryCommands, CheckFindsDamageAndRescuesWhatIsBeforeIt) {
  const Scratch scratch;
  const std::string file = (scratch / "chat.tmem").string(), saved = (scratch / "s.tmem").string();
  ASSERT_EQ(memory({"add", file, "--lines", "-"}, kLines).code, 0);
  ASSERT_EQ(memory({"add", file, "--speaker", "Ann", "--text", "Saturn!", "--time",
                    "2023-03-10T18:02:00"})
                .code,
            0);
  EXPECT_EQ(memory({"check", file}).code, 0);
  std::string bytes = read_file(file);
  bytes[bytes.find("Saturn")] = 's';
  write_file(file, bytes);
  const Ran found = memory({"check", file, "--rescue", saved});
  EXPECT_EQ(found.code, 3);
  EXPECT_NE(found.out.find("is corrupted in the record at byte"), std::string::npos) << found.out;
  EXPECT_EQ(memory({"query", file, "What did we say today?"}).code, 3);
  const Ran rescued = memory({"check", saved});
  EXPECT_EQ(rescued.code, 0);
  EXPECT_NE(rescued.out.find("3 turns in 2 sessions"), std::string::npos) << rescued.out;
}

TEST(MemoryCommands, TheToolIsDescribedAndCalled) {
  const Scratch scratch;
  const std::string file = (scratch / "chat.tmem").string();
  ASSERT_EQ(memory({"add", file, "--lines", "-"}, kLines).code, 0);
  const Ran definition = memory({"tool"});
  ASSERT_EQ(definition.code, 0) << definition.err;
  EXPECT_EQ(Json::parse(definition.out, "stdout").find("type")->string(), "function");
  const Ran called =
      memory({"tool", "--file", file, "--call",
              R"({"chain": [{"op": "f_value", "column": "session", "values": [2]}]})"});
  ASSERT_EQ(called.code, 0) << called.err;
  EXPECT_EQ(Json::parse(called.out, "stdout").find("found")->integer(), 1);
  EXPECT_EQ(memory({"tool", "--file", file, "--call", R"({"chain": 1})"}).code, 3);
}

TEST(BenchMemory, TimesQuestionsOnAMadeMemory) {
  const Ran ran = Program{.path = TEPHRA_BINARY}(
      {"bench", "memory", "--turns", "3000", "--repeats", "2", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_EQ(json.find("speed")->find("turns")->integer(), 3000);
  for (const Json& row : json.find("speed")->find("questions")->array()) {
    EXPECT_GT(row.find("rows")->integer(), 0) << row.dump();
  }
}

}  // namespace
}  // namespace tephra
