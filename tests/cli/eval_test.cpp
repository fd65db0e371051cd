// SPDX-License-Identifier: Apache-2.0
// `tephra eval` from the command line.
#include <gtest/gtest.h>

#include <filesystem>

#include "tephra/base/files.h"
#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

class EvalCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string config = std::string(TEPHRA_SOURCE_DIR) + "/tests/eval/config.json";
    const Ran made = run({"checkpoint", "random", "--config", config, "--out", at("model")});
    ASSERT_EQ(made.code, 0) << made.err;
    std::filesystem::copy_file(Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level/tokenizer.json",
                               scratch_ / "model/tokenizer.json");
  }

  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  static Ran run(const std::vector<std::string>& words) {
    return Program{.path = TEPHRA_BINARY}(words);
  }
  Ran eval(std::vector<std::string> more) const {
    std::vector<std::string> words = {"eval", "--model", at("model"), "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  void expect_refused(const std::vector<std::string>& words, int code,
                      const std::string& says) const {
    const Ran ran = eval(words);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  }

  Scratch scratch_;
};

TEST_F(EvalCommand, EvaluatesTasksQuestionsAndTextInOneDocument) {
  write_file(scratch_ / "q.jsonl", "{\"question\": \"1+1?\", \"answer\": 2}\n");
  write_file(scratch_ / "t.txt", "Some text to be foretold, with a few words more.");
  const std::vector<std::string> words = {"--environments",
                                          "counting:1-2,reversing",
                                          "--samples",
                                          "3",
                                          "--questions",
                                          at("q.jsonl"),
                                          "--text",
                                          at("t.txt"),
                                          "--n",
                                          "4",
                                          "--k",
                                          "1,4",
                                          "--temperature",
                                          "0.7",
                                          "--max-new-tokens",
                                          "8",
                                          "--out",
                                          at("out.jsonl"),
                                          "--json"};
  const Ran ran = eval(words);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  const Json::Array& rows = json.find("environments")->find("rows")->array();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].find("kind")->string(), "counting");
  EXPECT_EQ(rows[1].find("level")->integer(), 2);
  EXPECT_EQ(rows[1].find("problems")->integer(), 3);
  EXPECT_EQ(rows[1].find("samples")->integer(), 4);
  const Json& text = json.find("text")->array().at(0);
  EXPECT_EQ(text.find("bytes")->integer(), 47);  // of 48: this tokenizer begins with the text
  EXPECT_GT(text.find("bits_per_byte")->number(), 1);
  EXPECT_NE(json.find("questions")->array().at(0).find("pass_at")->find("4"), nullptr);

  const std::string answers = read_file(scratch_ / "out.jsonl");
  EXPECT_EQ(std::count(answers.begin(), answers.end(), '\n'), 3 * 3 * 4 + 4);
  expect_refused(words, 2, "out.jsonl: is there; give --overwrite to replace it");
  write_file(scratch_ / "out.jsonl.unfinished", "");  // as a kill before the first answer leaves it
  expect_refused(words, 2, "out.jsonl: is there; give --overwrite to replace it");
  std::vector<std::string> again = words;
  again.push_back("--overwrite");
  EXPECT_EQ(eval(again).out, ran.out);
  EXPECT_EQ(read_file(scratch_ / "out.jsonl"), answers);
  std::vector<std::string> narrow = again;
  narrow.insert(narrow.end(), {"--batch", "3", "--threads", "3"});
  EXPECT_EQ(eval(narrow).out, ran.out);
  EXPECT_EQ(read_file(scratch_ / "out.jsonl"), answers);
}

TEST_F(EvalCommand, GoesOnAfterKillsToTheSameBytes) {
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += format("{{\"question\": \"{} + 1?\", \"answer\": {}}}\n", i, i + 1);
  }
  write_file(scratch_ / "q.jsonl", lines);
  const auto words = [&](const std::string& out) {
    return std::vector<std::string>{
        "--questions", at("q.jsonl"), "--environments",   "counting:1", "--samples",     "10",
        "--n",         "3",           "--batch",          "4",          "--temperature", "0.7",
        "--stop",      "zz",          "--max-new-tokens", "24",         "--json",        "--out",
        at(out)};
  };
  const Ran whole = eval(words("whole.jsonl"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  std::string command = format("{} eval --model {}", TEPHRA_BINARY, at("model"));
  for (const std::string& word : words("part.jsonl")) command += " '" + word + "'";
  const Path journal = scratch_ / "part.jsonl.unfinished";
  const auto ended_at = [&](int count, const char* signal) {
    const std::string script = format(
        "{} > /dev/null 2> {} & p=$!; until [ $(cat {} 2> /dev/null | wc -l) -ge {} ]; do "
        "kill -0 $p || break; sleep 0.005; done; kill -{} $p; wait $p",
        command, at("said"), journal.string(), count, signal);
    return Program{.path = "/bin/bash"}({"-c", script}).code;
  };
  for (const int count : {1, 5, 40}) EXPECT_EQ(ended_at(count, "KILL"), 137) << count;
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "part.jsonl"));
  std::filesystem::resize_file(journal, std::filesystem::file_size(journal) - 3);
  EXPECT_EQ(ended_at(50, "INT"), 130);
  EXPECT_NE(read_file(scratch_ / "said").find("and the same command goes on behind them"),
            std::string::npos)
      << read_file(scratch_ / "said");
  std::vector<std::string> other = words("part.jsonl");
  other.insert(other.end(), {"--seed", "3"});
  expect_refused(other, 2, "which has not ended: seed was 0 and is 3");
  const std::string kept = read_file(journal);
  write_file(scratch_ / "long.jsonl",
             format("{{\"question\": \"{}\", \"answer\": 1}}\n", std::string(9000, '?')));
  expect_refused({"--questions", at("long.jsonl"), "--out", at("part.jsonl"), "--overwrite"}, 2,
                 "9001");
  EXPECT_EQ(read_file(journal), kept);
  const Ran last = eval(words("part.jsonl"));
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.out, whole.out);
  EXPECT_EQ(read_file(scratch_ / "part.jsonl"), read_file(scratch_ / "whole.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(journal));
}

TEST_F(EvalCommand, TellsScoresThatCannotBeWritten) {
  const std::string script = format(
      "ulimit -f 1; {} eval --quiet --model {} --environments addition:1 --samples 20 "
      "--max-new-tokens 8 --json --out {}",
      TEPHRA_BINARY, at("model"), at("out.jsonl"));
  const Ran ran = Program{.path = "/bin/bash"}({"-c", script});
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_NE(ran.err.find("out.jsonl"), std::string::npos) << ran.err;
  EXPECT_NE(Json::parse(ran.out, "stdout").find("environments"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out.jsonl"));
}

TEST_F(EvalCommand, PrintsTablesAndWrongAnswers) {
  write_file(scratch_ / "t.txt", "Some text to be foretold.");
  const Ran ran = eval({"--environments", "addition:1-2", "--samples", "2", "--text", at("t.txt"),
                        "--max-new-tokens", "4", "--show", "1"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("kind      level  right of  accuracy")) << ran.out;
  EXPECT_NE(ran.out.find("bits/byte"), std::string::npos);
  EXPECT_NE(ran.out.find("addition level 2 task 0: expected '"), std::string::npos) << ran.out;
}

TEST_F(EvalCommand, PutsQuestionsThroughTheChatTemplate) {
  write_file(scratch_ / "q.jsonl",
             "{\"question\": \"1+1?\", \"answer\": 2}\n{\"prompt\": \"as is\", \"answer\": 3}\n");
  const std::vector<std::string> words = {"--questions", at("q.jsonl"),    "--chat",
                                          "--template",  "Say {question}", "--max-new-tokens",
                                          "4",           "--out",          at("out.jsonl")};
  expect_refused(words, 2, "chat");
  write_file(scratch_ / "model/chat_template.jinja",
             "{{ '<|' + messages[0].role + '|>' + messages[0].content }}<|assistant|>");
  const Ran ran = eval(words);
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string lines = read_file(scratch_ / "out.jsonl");
  EXPECT_NE(lines.find("\"prompt\":\"<|user|>Say 1+1?<|assistant|>\""), std::string::npos) << lines;
  EXPECT_NE(lines.find("\"prompt\":\"as is\""), std::string::npos) << lines;
}

TEST_F(EvalCommand, RefusesFlagsThatWouldChangeNothing) {
  write_file(scratch_ / "t.txt", "Some text to be foretold.");
  write_file(scratch_ / "q.jsonl", "{\"question\": \"1+1?\", \"answer\": 2}\n");
  const std::vector<std::string> text = {"--text", at("t.txt")},
                                 tasks = {"--environments", "sorting"},
                                 questions = {"--questions", at("q.jsonl")};
  const auto refused = [&](std::vector<std::string> words, const std::vector<std::string>& more,
                           const std::string& says) {
    words.insert(words.end(), more.begin(), more.end());
    expect_refused(words, 2, "tephra eval: " + more.front() + says);
  };
  const std::string for_answers =
      " is for answers, of --environments or --questions; --text has none";
  refused(text, {"--out", at("out.jsonl")}, for_answers);
  refused(text, {"--show", "2"}, for_answers);
  refused(text, {"--n", "4"}, for_answers);
  refused(text, {"--temperature", "1"}, for_answers);
  refused(text, {"--batch", "4"}, for_answers);
  refused(text, {"--chat"}, " is for --environments or --questions, which are not given");
  refused(text, {"--seed", "4"}, " is for --environments or --questions, which are not given");
  refused(tasks, {"--window", "64"}, " is for --text, which is not given");
  refused(tasks, {"--stride", "64"}, " is for --text, which is not given");
  refused(tasks, {"--template", "{question}"}, " is for --questions, which is not given");
  refused(tasks, {"--match", "exact"}, " is for --questions, which is not given");
  refused(questions, {"--tolerance", "0.1", "--match", "exact"}, " is for --match numeric");
  refused(tasks, {"--top-k", "4"}, " is for a --temperature above 0");
  refused(tasks, {"--show", "2", "--against", at("model")},
          " is for answers; with --against there are none");
  refused(text, {"--stride", "9", "--against", at("model")},
          " is for perplexity, not for --against");
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "out.jsonl"));
}

TEST_F(EvalCommand, SaysWhatIsWrongBeforeItLoadsTheModel) {
  expect_refused({}, 2, "--environments, --text, --questions: expected one of them, got none");
  expect_refused({"--environments", "sortin:1"}, 2, "did you mean sorting?");
  expect_refused({"--environments", "sorting:2-1"}, 2, "expected KIND:LEVEL or KIND:LOW-HIGH");
  expect_refused({"--environments", "sorting", "--n", "4"}, 2,
                 "4 samples of each problem would all be the same at temperature 0");
  expect_refused({"--environments", "sorting", "--k", "2"}, 2,
                 "--k: expected 1 to 1, the attempts of --n, got 2");
  expect_refused({"--text", at("none.txt")}, 2, "none.txt");
  expect_refused({"--questions", at("none.jsonl")}, 2, "none.jsonl");
  write_file(scratch_ / "q.jsonl", "{\"question\": \"1+1?\", \"answer\": 2}\n{\"question\": 3}\n");
  expect_refused({"--questions", at("q.jsonl")}, 3, "q.jsonl:2");
  write_file(scratch_ / "t.txt", "ab\xff");
  expect_refused({"--text", at("t.txt")}, 3, "t.txt: expected UTF-8 text, but byte 2 is none");
  expect_refused({"--text", at("q.jsonl"), "--window", "9999"}, 2,
                 "window: expected at most the model's limit of 2048 tokens, got 9999");
  std::filesystem::remove(scratch_ / "model/tokenizer.json");
  expect_refused({"--environments", "sorting"}, 2, "tokenizer.json");
}

}  // namespace
}  // namespace tephra
