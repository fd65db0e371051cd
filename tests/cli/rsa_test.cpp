// SPDX-License-Identifier: Apache-2.0
// `tephra rsa` from the command line.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <string>

#include "tephra/base/files.h"
#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tests/cli/chat_model.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

class RsaCommand : public ::testing::Test {
 protected:
  void SetUp() override { make_chat_model(scratch_ / "model"); }

  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  Ran rsa(std::vector<std::string> more) const {
    std::vector<std::string> words = {"rsa", "--model", at(model_), "--kv-memory", "32MiB"};
    words.insert(words.end(), more.begin(), more.end());
    return Program{.path = TEPHRA_BINARY}(words);
  }
  void expect_refused(const std::vector<std::string>& words, int code,
                      const std::string& says) const {
    const Ran ran = rsa(words);
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find(says), std::string::npos) << ran.err;
  }

  Scratch scratch_;
  std::string model_ = "model";
};

const std::vector<std::string> kFew = {"--n",    "3",  "--c",   "2", "--rounds", "1",
                                       "--beta", "16", "--tau", "8", "--seed",   "5"};

std::vector<std::string> with_few(std::vector<std::string> words) {
  words.insert(words.end(), kFew.begin(), kFew.end());
  return words;
}

TEST_F(RsaCommand, SolvesAProblemAndSavesItsTree) {
  const Ran ran =
      rsa(with_few({"--prompt", "What is 2 + 2?", "--answer", "4", "--out", at("tree")}));
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.out.find("answer"), std::string::npos);
  EXPECT_NE(ran.out.find("mean "), std::string::npos) << ran.out;
  EXPECT_NE(ran.err.find("round 0 of 1: 3 traces, "), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("tokens/s"), std::string::npos) << ran.err;
  const Json tree = Json::parse(read_file(scratch_ / "tree/tree.json"), "tree.json");
  EXPECT_EQ(tree.find("questions")->array()[0].find("rounds")->array().size(), 2u);
  EXPECT_EQ(read_file(scratch_ / "tree/tree.html").find("<!doctype html>"), 0u);

  // The same seed, the same tree; another number of threads or traces side by side changes nothing.
  const auto again = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words =
        with_few({"--prompt", "What is 2 + 2?", "--answer", "4", "--quiet", "--json"});
    words.insert(words.end(), more.begin(), more.end());
    const Ran one = rsa(words);
    EXPECT_EQ(one.code, 0) << one.err;
    EXPECT_EQ(one.err, "");
    return Json::parse(one.out, "stdout").find("questions")->dump();
  };
  const std::string first = again({});
  EXPECT_EQ(again({"--threads", "1", "--sequences", "2"}), first);
}

TEST_F(RsaCommand, KeepsWholeRoundsOfAProblemThatIsInterrupted) {
  // More rounds than anybody waits for, and Ctrl-C once the first is over.
  const std::string script = format(
      "{} rsa --model {} --kv-memory 32MiB --prompt 'What is 2 + 2?' --n 2 --rounds 1000 --beta 16 "
      "--tau 8 --out {} 2> {} & p=$!; until grep -q 'round 0 of 1000' {}; do sleep 0.05; done; "
      "kill -INT $p; wait $p",
      TEPHRA_BINARY, at("model"), at("tree"), at("said"), at("said"));
  const Ran ran = Program{.path = "/bin/bash"}({"-c", script});
  const std::string said = read_file(scratch_ / "said");
  EXPECT_EQ(ran.code, 130) << said;
  EXPECT_NE(said.find(" of 1001 rounds were finished and are in " + at("tree")), said.npos) << said;
  const Json tree = Json::parse(read_file(scratch_ / "tree/tree.json"), "tree.json");
  const Json::Array& rounds = tree.find("questions")->array()[0].find("rounds")->array();
  EXPECT_GE(rounds.size(), 1u);
  EXPECT_LT(rounds.size(), 1001u);
  EXPECT_EQ(rounds.back().find("traces")->array().size(), 2u);
}

TEST_F(RsaCommand, KeepsWhatWasFinishedWhenItFails) {
  // A template that takes no tails, but for those that measure its length or of a question that
  // says so.
  write_file(scratch_ / "model/chat_template.jinja",
             "{% set text = messages[-1].content %}"
             "{% if 'Ends of' in text and '\\nx\\n' not in text and 'short' not in text %}"
             "{{ raise_exception('no tails') }}{% endif %}{{ text[:40] }}");
  const auto tree_of = [&](const char* folder) {
    return Json::parse(read_file(scratch_ / folder / "tree.json"), "tree.json");
  };
  const Ran one = rsa(with_few({"--chat", "--prompt", "What is 2 + 2?", "--out", at("tree")}));
  EXPECT_EQ(one.code, 2) << one.err;
  EXPECT_NE(one.err.find("no tails; 1 of 2 rounds were finished and are in " + at("tree")),
            std::string::npos)
      << one.err;
  EXPECT_EQ(tree_of("tree").find("questions")->array()[0].find("rounds")->array().size(), 1u);
  EXPECT_NE(one.err.find("the same command goes on"), std::string::npos) << one.err;
  // Gone on with, it fails at once, and has as much to show.
  const std::string first = read_file(scratch_ / "tree/tree.json");
  std::filesystem::remove(scratch_ / "tree/tree.json");
  const Ran again = rsa(with_few({"--chat", "--prompt", "What is 2 + 2?", "--out", at("tree")}));
  EXPECT_EQ(again.code, 2) << again.err;
  EXPECT_NE(again.err.find("no tails; 1 of 2 rounds were finished and are in " + at("tree")),
            std::string::npos)
      << again.err;
  EXPECT_EQ(read_file(scratch_ / "tree/tree.json"), first);

  // The error's own exit code, also where the tree cannot be written.
  std::filesystem::create_directories(scratch_ / "blocked/tree.html/in the way");
  const Ran blocked =
      rsa(with_few({"--chat", "--prompt", "What is 2 + 2?", "--out", at("blocked")}));
  EXPECT_EQ(blocked.code, 2) << blocked.err;
  EXPECT_NE(blocked.err.find("no tails; " + at("blocked/tree.html")), std::string::npos)
      << blocked.err;

  write_file(scratch_ / "q.jsonl",
             "{\"question\": \"short 1+1?\", \"answer\": 2}\n"
             "{\"question\": \"1+2?\", \"answer\": 3}\n");
  for (int i = 0; i < 2; ++i) {
    const Ran many = rsa(with_few(
        {"--chat", "--questions", at("q.jsonl"), "--sequences", "1", "--out", at("many")}));
    EXPECT_EQ(many.code, 2) << many.err;
    EXPECT_NE(many.err.find("1 of 2 problems and 1 round of others were finished and are in"),
              std::string::npos)
        << many.err;
    EXPECT_EQ(tree_of("many").find("questions")->array().size(), 1u);
    EXPECT_EQ(tree_of("many").find("asked")->integer(), 2);
    EXPECT_TRUE(tree_of("many").find("options")->find("chat")->boolean());
    std::filesystem::remove(scratch_ / "many/tree.json");
  }
}

TEST_F(RsaCommand, ReplacesNoTreeUnasked) {
  const auto words = [&](std::vector<std::string> more) {
    std::vector<std::string> all = with_few({"--prompt", "What is 2 + 2?", "--out", at("tree")});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  std::filesystem::create_directories(scratch_ / "tree");
  write_file(scratch_ / "tree/.tree.html.12-1.tmp", "left by a kill");
  write_file(scratch_ / "tree/.tree.html.mine.tmp", "of others");
  EXPECT_EQ(rsa(words({})).code, 0);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "tree/.tree.html.12-1.tmp"));
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "tree/.tree.html.mine.tmp"));
  const Path file = scratch_ / "tree/tree.json";
  const std::string whole = read_file(file);
  expect_refused(words({}), 2, "holds a tree; give --overwrite");
  // A journal without answers, as a killed --overwrite leaves it, takes nothing from the tree.
  write_file(scratch_ / "tree/unfinished.jsonl", "");
  expect_refused(words({"--temperature", "0.5"}), 2, "holds a tree; give --overwrite");
  EXPECT_EQ(read_file(file), whole);
  EXPECT_FALSE(std::filesystem::exists(scratch_ / "tree/unfinished.jsonl"));
  EXPECT_EQ(rsa(words({"--overwrite"})).code, 0);
  EXPECT_EQ(read_file(file), whole);
}

// Runs that are killed, cut and gone on with, over many questions and over one.
class RsaKilled : public RsaCommand {
 protected:
  void SetUp() override {
    RsaCommand::SetUp();
    std::string lines;
    for (int i = 0; i < 12; ++i) {
      lines += format("{{\"question\": \"{} + {}?\", \"answer\": {}}}\n", i, i, 2 * i);
    }
    write_file(scratch_ / "q.jsonl", lines);
  }

  std::vector<std::string> words(const std::string& out) const {
    return {"--questions", at("q.jsonl"), "--n",         "3",  "--c",   "2",
            "--rounds",    "2",           "--beta",      "48", "--tau", "24",
            "--seed",      "5",           "--sequences", "4",  "--out", at(out)};
  }
  // A single problem, of more rounds than are over before it is killed.
  std::vector<std::string> alone(const std::string& out, const std::string& c = "2") const {
    return {"--prompt", "What is 2 + 2?", "--n", "3",     "--c", c,        "--rounds",
            "40",       "--beta",         "24",  "--tau", "12",  "--seed", "5",
            "--out",    at(out)};
  }
  std::string said_by(const std::string& out) const { return read_file(scratch_ / (out + ".err")); }
  // Until the journal has so many whole lines, its head included; then the signal.
  int ended_at(const std::string& out, int lines, const char* signal) const {
    return ended_at(out, lines, signal, words(out));
  }
  int ended_at(const std::string& out, int lines, const char* signal,
               const std::vector<std::string>& flags) const {
    std::string command = format("{} rsa --model {} --kv-memory 32MiB", TEPHRA_BINARY, at("model"));
    for (const std::string& word : flags) command += " '" + word + "'";
    const std::string script = format(
        "{} 2> {}.err & p=$!; until [ $(cat {}/unfinished.jsonl 2> /dev/null | wc -l) -ge {} ]; do "
        "kill -0 $p || break; sleep 0.005; done; kill -{} $p; wait $p",
        command, at(out), at(out), lines, signal);
    return Program{.path = "/bin/bash"}({"-c", script}).code;
  }
  std::string tree(const std::string& out) const {
    return read_file(scratch_ / out / "tree.json") + read_file(scratch_ / out / "tree.html");
  }
  bool unfinished(const std::string& out) const {
    return std::filesystem::exists(scratch_ / out / "unfinished.jsonl");
  }
};

TEST_F(RsaKilled, GoesOnToTheSameBytes) {
  EXPECT_EQ(rsa(words("whole")).code, 0);
  EXPECT_FALSE(unfinished("whole"));
  for (const int lines : {1, 5, 20}) EXPECT_EQ(ended_at("part", lines, "KILL"), 137);
  // As if the last answer had been cut in the middle.
  const Path journal = scratch_ / "part/unfinished.jsonl";
  std::filesystem::resize_file(journal, std::filesystem::file_size(journal) - 7);
  const Ran last = rsa(words("part"));
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_NE(last.err.find("of an answer that was not written to its end"), std::string::npos);
  EXPECT_NE(last.err.find(" of 12 problems"), std::string::npos) << last.err;
  EXPECT_NE(last.err.find(" were finished before and are in "), std::string::npos) << last.err;
  EXPECT_FALSE(unfinished("part"));
  EXPECT_EQ(tree("part"), tree("whole"));
}

TEST_F(RsaKilled, GoesOnWithTheRoundsOfASingleProblem) {
  for (const std::string c : {"2", "1"}) {
    EXPECT_EQ(rsa(alone("whole" + c, c)).code, 0);
    const std::string part = "part" + c;
    for (const int lines : {3, 8}) {
      EXPECT_EQ(ended_at(part, lines, "KILL", alone(part, c)), 137) << said_by(part);
    }
    EXPECT_EQ(ended_at(part, 12, "INT", alone(part, c)), 130) << said_by(part);
    EXPECT_NE(said_by(part).find(" of 41 rounds were finished before"), std::string::npos)
        << said_by(part);
    EXPECT_NE(said_by(part).find("; the same command goes on"), std::string::npos);
    const Json so_far = Json::parse(read_file(scratch_ / part / "tree.json"), "tree.json");
    const auto rounds = so_far.find("questions")->array()[0].find("rounds")->array().size();
    EXPECT_GE(rounds, 11u);
    const Ran last = rsa(alone(part, c));
    EXPECT_EQ(last.code, 0) << last.err;
    EXPECT_NE(last.err.find(format("{} of 41 rounds were finished before", rounds)),
              std::string::npos)
        << last.err;
    EXPECT_EQ(last.err.find(format("round {} of 40: 3 traces", rounds - 1)), std::string::npos);
    EXPECT_NE(last.err.find(format("round {} of 40: 3 traces", rounds)), std::string::npos);
    EXPECT_FALSE(unfinished(part));
    EXPECT_EQ(tree(part), tree("whole" + c));
  }
}

TEST_F(RsaKilled, LeavesTheRoundsOfAnotherModelAlone) {
  std::vector<std::string> first = alone("part");
  first.insert(first.end(), {"--dtype", "f32"});
  EXPECT_EQ(ended_at("part", 3, "INT", first), 130) << said_by("part");
  const std::string before = tree("part") + read_file(scratch_ / "part/unfinished.jsonl");
  std::vector<std::string> other = alone("part");
  other.insert(other.end(), {"--dtype", "bf16"});
  expect_refused(other, 2, "dtype was \"f32\" and is \"bf16\"");
  // Of the same name, under another folder.
  std::filesystem::create_directories(scratch_ / "other");
  make_chat_model(scratch_ / "other/model", 8);
  model_ = "other/model";
  std::vector<std::string> same = alone("part");
  same.insert(same.end(), {"--dtype", "f32"});
  expect_refused(same, 2, "model was ");
  EXPECT_EQ(tree("part") + read_file(scratch_ / "part/unfinished.jsonl"), before);
}

TEST_F(RsaKilled, KeepsItsRoundsWhereWhatWouldReplaceThemIsRefused) {
  EXPECT_EQ(ended_at("part", 3, "INT", alone("part")), 130) << said_by("part");
  const std::string before = read_file(scratch_ / "part/unfinished.jsonl");
  expect_refused({"--prompt", "x", "--beta", "4000", "--out", at("part"), "--overwrite"}, 2,
                 "do not fit the context of 2048");
  EXPECT_EQ(read_file(scratch_ / "part/unfinished.jsonl"), before);
}

TEST_F(RsaKilled, MakesTheRoundsBehindARemovedLineAgain) {
  EXPECT_EQ(rsa(alone("whole")).code, 0);
  EXPECT_EQ(ended_at("part", 6, "KILL", alone("part")), 137);
  const Path file = scratch_ / "part/unfinished.jsonl";
  std::string journal = read_file(file);
  const size_t third = journal.find('\n', journal.find('\n') + 1) + 1;
  journal.erase(third, journal.find('\n', third) + 1 - third);
  write_file(file, journal);
  EXPECT_EQ(ended_at("part", 12, "KILL", alone("part")), 137);
  EXPECT_NE(said_by("part").find("1 of 41 rounds were finished before"), std::string::npos);
  EXPECT_EQ(rsa(alone("part")).code, 0);
  EXPECT_EQ(tree("part"), tree("whole"));
}

TEST_F(RsaKilled, EndsCleanlyAtCtrlC) {
  EXPECT_EQ(ended_at("part", 16, "INT"), 130) << said_by("part");
  EXPECT_NE(said_by("part").find("the same command goes on"), std::string::npos) << said_by("part");
  const Json tree_so_far = Json::parse(read_file(scratch_ / "part/tree.json"), "tree.json");
  EXPECT_GE(tree_so_far.find("questions")->array().size(), 3u);
  EXPECT_EQ(rsa(words("part")).code, 0);
  EXPECT_EQ(rsa(words("whole")).code, 0);
  EXPECT_EQ(tree("part"), tree("whole"));
}

TEST_F(RsaKilled, CountsWhatAFullDiskDidNotTake) {
  std::string command = format("{} rsa --model {} --kv-memory 32MiB", TEPHRA_BINARY, at("model"));
  for (const std::string& word : alone("part")) {
    command += " '" + (word == "40" ? "1000" : word) + "'";  // no end before Ctrl-C
  }
  const std::string script = format(
      "ulimit -f 4; {} 2> {} & p=$!; until grep -q 'kept in memory' {}; do "
      "kill -0 $p || break; sleep 0.05; done; kill -INT $p; wait $p",
      command, at("said"), at("said"));
  const Ran ran = Program{.path = "/bin/bash"}({"-c", script});
  const std::string said = read_file(scratch_ / "said");
  EXPECT_EQ(ran.code, 130) << said;
  std::smatch told;
  ASSERT_TRUE(std::regex_search(
      said, told,
      std::regex("([0-9]+) of 1001 rounds were finished and are in .*, but for ([0-9]+) round")))
      << said;
  const std::string journal = read_file(scratch_ / "part/unfinished.jsonl");
  const auto lines = std::count(journal.begin(), journal.end(), '\n');
  EXPECT_EQ(std::stol(told[1]) - std::stol(told[2]), lines - 1) << said;
}

TEST_F(RsaKilled, NamesALineThatIsDamaged) {
  EXPECT_EQ(ended_at("part", 4, "KILL"), 137);
  const Path file = scratch_ / "part/unfinished.jsonl";
  std::string journal = read_file(file);
  char& byte = journal[journal.find("\"text\":\"") + 8];
  byte = byte == 'x' ? 'y' : 'x';
  write_file(file, journal);
  expect_refused(words("part"), 3, "unfinished.jsonl:2: is damaged");
  EXPECT_EQ(read_file(file), journal);
}

TEST_F(RsaKilled, BeginsAnewWhereALineCannotBe) {
  EXPECT_EQ(rsa(alone("whole")).code, 0);
  EXPECT_EQ(ended_at("part", 4, "KILL", alone("part")), 137);
  const Path file = scratch_ / "part/unfinished.jsonl";
  std::string journal = read_file(file);
  journal.erase(journal.rfind('\n') + 1);
  const size_t second = journal.find('\n') + 1;
  write_file(file, journal + journal.substr(second, journal.find('\n', second) + 1 - second));
  expect_refused(alone("part"), 3, "expected a round from ");
  std::vector<std::string> anew = alone("part");
  anew.push_back("--overwrite");
  const Ran ran = rsa(anew);
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("; it is begun anew"), std::string::npos) << ran.err;
  EXPECT_EQ(tree("part"), tree("whole"));
}

TEST_F(RsaKilled, RefusesOtherSettings) {
  EXPECT_EQ(ended_at("part", 3, "KILL"), 137);
  std::vector<std::string> other = words("part");
  other.insert(other.end(), {"--temperature", "0.5"});
  const std::string journal = read_file(scratch_ / "part/unfinished.jsonl");
  EXPECT_NE(journal.find("\"instructions\":"), std::string::npos);
  EXPECT_NE(journal.find("\"line\":\"round\""), std::string::npos);
  expect_refused(other, 2, "other settings, which has not ended: temperature was 1");
  write_file(scratch_ / "q.jsonl",
             read_file(scratch_ / "q.jsonl") + "{\"question\": \"0?\", \"answer\": 0}\n");
  expect_refused(words("part"), 2, "questions was \"12 with hash");
  other.push_back("--overwrite");
  EXPECT_EQ(rsa(other).code, 0);
  EXPECT_NE(tree("part").find("\"temperature\": 0.5"), std::string::npos);
  expect_refused(words("part"), 2, "holds a tree; give --overwrite to replace it");
}

TEST_F(RsaCommand, TellsResultsThatCannotBeWritten) {
  std::filesystem::create_directories(scratch_ / "tree/tree.html/in the way");
  const Ran ran = rsa(with_few({"--prompt", "What is 2 + 2?", "--json", "--out", at("tree")}));
  EXPECT_NE(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("tree.html"), std::string::npos) << ran.err;
  EXPECT_EQ(Json::parse(ran.out, "stdout").find("asked")->integer(), 1);
}

TEST_F(RsaCommand, PrintsAnyByteThatAModelWrites) {
  // Long enough that the zero byte, one token of a thousand, is in some of them.
  int zeros = 0;
  for (const char* seed : {"1", "2", "3"}) {
    const Ran ran = rsa({"--prompt", "x", "--n", "1", "--rounds", "0", "--beta", "1500", "--seed",
                         seed, "--out", at(std::string("tree") + seed)});
    EXPECT_EQ(ran.code, 0) << ran.err;
    const Json tree =
        Json::parse(read_file(scratch_ / (std::string("tree") + seed) / "tree.json"), "tree.json");
    const Json& chosen = *tree.find("questions")->array()[0].find("chosen");
    const std::string text(trim(chosen.find("text")->string()));
    EXPECT_TRUE(ran.out.starts_with(text + "\n")) << seed;
    zeros += text.find('\0') != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(zeros, 0);
}

TEST_F(RsaCommand, FewTracesNeedNoOtherFlag) {
  const Ran ran = rsa({"--prompt", "What is 2 + 2?", "--n", "2", "--rounds", "1", "--beta", "16"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_NE(ran.err.find("1 round with 2 tails of 8 tokens"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("traces of the last round were cut at 16 tokens"), std::string::npos)
      << ran.err;
}

TEST_F(RsaCommand, MeasuresQuestionFilesAndTasks) {
  write_file(scratch_ / "q.jsonl",
             "{\"question\": \"1+1?\", \"answer\": 2}\n{\"question\": \"1+2?\", \"answer\": 3}\n");
  const Ran table = rsa(with_few({"--questions", at("q.jsonl"), "--chat", "--no-think"}));
  EXPECT_EQ(table.code, 0) << table.err;
  for (const char* row : {"a single trace", "majority of the first round", "mean of round 1"}) {
    EXPECT_NE(table.out.find(row), std::string::npos) << table.out;
  }
  const Ran tasks = rsa(with_few({"--environments", "addition:1", "--samples", "3", "--json"}));
  EXPECT_EQ(tasks.code, 0) << tasks.err;
  const Json json = Json::parse(tasks.out, "stdout");
  EXPECT_EQ(json.find("score")->find("questions")->integer(), 3);
  EXPECT_EQ(json.find("tokens")->find("generated")->integer() > 0, true);
}

TEST_F(RsaCommand, TasksWithAttemptsAreShownAndMeasured) {
  const Program tephra{.path = TEPHRA_BINARY};
  const Ran shown = tephra({"data", "environments", "show", "addition", "--aggregate", "3"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("Ends of 3 attempts at this"), std::string::npos) << shown.out;
  const Ran measured = tephra({"eval", "--quiet", "--model", at("model"), "--environments",
                               "addition:1", "--samples", "2", "--max-new-tokens", "8",
                               "--aggregate", "3", "--tail", "16", "--json"});
  EXPECT_EQ(measured.code, 0) << measured.err;
  EXPECT_EQ(Json::parse(measured.out, "stdout").find("environments")->find("aggregate")->integer(),
            3);
  const Ran refused =
      tephra({"eval", "--model", at("model"), "--environments", "addition:1", "--tail", "16"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_NE(refused.err.find("--tail is for --aggregate, which is not given"), std::string::npos)
      << refused.err;
}

TEST_F(RsaCommand, SaysWhatIsWrongBeforeAnyWork) {
  expect_refused(
      {}, 2,
      "--prompt, --prompt-file, --questions, --environments: expected one of them, got none\n"
      "  try: tephra rsa --help");
  expect_refused({"--prompt", "x", "--environments", "addition"}, 2, "got several");
  expect_refused({"--prompt", "x", "--n", "2", "--c", "4"}, 2, "expected 1 to 2 candidates");
  expect_refused({"--prompt", "x", "--temperature", "0"}, 2, "give a temperature");
  expect_refused({"--prompt", "x", "--beta", "8", "--tau", "9"}, 2, "tails of 1 to 8 tokens");
  expect_refused({"--prompt", "x", "--beta", "4000"}, 2, "do not fit the context of 2048");
  expect_refused({"--prompt", "x", "--tau", "5000"}, 2,
                 "4 tails of 5000 leave no room for a trace in the context of 2048\n  try: "
                 "make tails (tau) shorter, or take fewer");
  expect_refused({"--prompt", std::string(9000, '?'), "--beta", "1", "--tau", "1"}, 2,
                 "4 tails of 1 leave no room for a trace in the context of 2048\n  try: "
                 "shorten the problem");
  expect_refused({"--questions", at("none.jsonl")}, 2, "none.jsonl");
  expect_refused({"--questions", "q", "--answer", "4"}, 2, "--answer is for --prompt");
  expect_refused({"--prompt", "x", "--rounds", "0", "--c", "2"}, 2,
                 "--c is for later rounds; it needs --rounds above 0\n  try: tephra rsa --help");
  expect_refused({"--prompt", "x", "--rounds", "0", "--tau", "2"}, 2,
                 "--tau is for later rounds and for the tree; it needs --rounds above 0 or --out");
  expect_refused({"--questions", "q", "--match", "exact", "--tolerance", "0.1"}, 2,
                 "--tolerance is for --match numeric\n  try: tephra rsa --help");
  expect_refused({"--prompt", "x", "--tolerance", "0.1"}, 2,
                 "--tolerance is for --answer or --questions, which are not given");
  expect_refused({"--environments", "sorting", "--match", "exact"}, 2,
                 "--match is for other problems; tasks have their own checkers");
  expect_refused({"--prompt", "x", "--no-think"}, 2, "--no-think is for --chat");
  expect_refused({"--prompt", "x", "--overwrite"}, 2, "--overwrite is for --out");
  expect_refused({"--prompt", "x", "--out", at("model/.")}, 2, "is the model's folder");
  expect_refused({"--prompt", "x", "--n", "2", "--c", "4", "--out", at("new")}, 2, "candidates");
  expect_refused({"--prompt", "x", "--beta", "4000", "--out", at("new/q")}, 2, "do not fit");
  EXPECT_FALSE(std::filesystem::exists(at("new")));
  expect_refused({"--prompt", "x", "--samples", "3"}, 2, "--samples is for --environments");
  expect_refused({"--questions", "q", "--split", "train"}, 2, "--split is for --environments");
  expect_refused({"--prompt", "x", "--n", "1", "--temperature", "0", "--top-p", "0.9"}, 2,
                 "--top-p is for a --temperature above 0");
}

}  // namespace
}  // namespace tephra
