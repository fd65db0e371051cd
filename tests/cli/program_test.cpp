// SPDX-License-Identifier: Apache-2.0
// The built binary from end to end: help, mistakes, exit codes, what goes to stdout.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "tephra/base/json.h"
#include "tephra/cli/command.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Ran tephra_program(const std::vector<std::string>& arguments) {
  return Program{.path = TEPHRA_BINARY}(arguments);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> words_of(const std::string& name) {
  const size_t space = name.find(' ');
  if (space == std::string::npos) return {name};
  return {name.substr(0, space), name.substr(space + 1)};
}

TEST(Program, ListsEveryCommandUnderItsGroup) {
  const Ran ran = tephra_program({"--help"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.err, "");
  std::vector<std::string> groups = {""};
  for (const Command& c : all_commands()) {
    if (groups.back() != c.group) {
      EXPECT_EQ(std::count(groups.begin(), groups.end(), c.group), 0) << c.group << " comes again";
      groups.push_back(c.group);
    }
    EXPECT_TRUE(contains(ran.out, c.name)) << c.name;
    EXPECT_TRUE(contains(ran.out, c.summary)) << c.name;
    EXPECT_STRNE(c.group, "") << c.name;
  }
  EXPECT_TRUE(contains(ran.out, "Exit codes: 0 done, 2 usage, 3 data, 4 device,")) << ran.out;
  const Ran bare = tephra_program({});
  EXPECT_EQ(bare.code, 2);
  EXPECT_EQ(bare.out, "");
  EXPECT_EQ(bare.err, ran.out);
}

TEST(Program, EveryCommandHasHelpWithAnExample) {
  for (const Command& c : all_commands()) {
    std::vector<std::string> words = words_of(c.name);
    words.push_back("--help");
    const Ran ran = tephra_program(words);
    EXPECT_EQ(ran.code, 0) << c.name;
    EXPECT_EQ(ran.err, "") << c.name;
    EXPECT_TRUE(contains(ran.out, std::string("usage: tephra ") + c.name)) << ran.out;
    EXPECT_TRUE(contains(ran.out, std::string("Examples:\n  tephra ") + c.name)) << ran.out;
  }
}

TEST(Program, SaysWhyThereIsNoGpu) {
  const Ran doctor = tephra_program({"doctor", "--no-measure", "--json"});
  ASSERT_EQ(doctor.code, 0);
  const Json found = Json::parse(doctor.out, "doctor");
  const Json* gpu = found.find("gpu");
  ASSERT_NE(gpu, nullptr);
  if (!gpu->find("devices")->array().empty()) GTEST_SKIP() << "this machine has one";
  const Ran ran = tephra_program({"bench", "train", "--device", "gpu"});
  EXPECT_EQ(ran.code, 4);
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(contains(ran.err, gpu->find("why_none")->string())) << ran.err;
  EXPECT_TRUE(contains(ran.err, "--device cpu")) << ran.err;
  EXPECT_EQ(tephra_program({"bench", "train", "--device", "gpu:x"}).code, 2);
  EXPECT_EQ(tephra_program({"bench", "train", "--device", "tpu"}).code, 2);
}

TEST(Program, EveryCommandRejectsAnUnknownFlag) {
  for (const Command& c : all_commands()) {
    std::vector<std::string> words = words_of(c.name);
    words.push_back("--thraeds=2");
    const Ran ran = tephra_program(words);
    EXPECT_EQ(ran.code, 2) << c.name;
    EXPECT_EQ(ran.out, "") << c.name;
    EXPECT_EQ(ran.err, std::string("tephra ") + c.name +
                           ": there is no flag --thraeds; did you mean --threads?\n  try: tephra " +
                           c.name + " --help\n");
  }
}

TEST(Program, SaysItsVersion) {
  const Ran ran = tephra_program({"--version"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out, std::string("tephra ") + TEPHRA_VERSION + "\n");
}

TEST(Program, NamesTheNearestCommand) {
  EXPECT_EQ(tephra_program({"docter"}).err,
            "tephra: there is no command 'docter'; did you mean 'doctor'?\n"
            "  try: tephra --help\n");
  const Ran two = tephra_program({"bench", "opps"});
  EXPECT_EQ(two.code, 2);
  EXPECT_EQ(two.err,
            "tephra: there is no command 'bench opps'; did you mean 'bench ops'?\n"
            "  try: tephra bench --help\n");
}

TEST(Program, ListsTheCommandsBelowAWord) {
  const Ran bare = tephra_program({"bench"});
  EXPECT_EQ(bare.code, 2);
  EXPECT_TRUE(contains(bare.err, "bench ops")) << bare.err;
  const Ran help = tephra_program({"bench", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.out, bare.err);
  EXPECT_FALSE(contains(help.out, "doctor"));
}

TEST(Program, HelpIsAlsoAWord) {
  EXPECT_EQ(tephra_program({"help"}).out, tephra_program({"--help"}).out);
  EXPECT_EQ(tephra_program({"help", "doctor"}).out, tephra_program({"doctor", "--help"}).out);
  EXPECT_EQ(tephra_program({"help", "bench", "ops"}).out,
            tephra_program({"bench", "ops", "-h"}).out);
  EXPECT_EQ(tephra_program({"help", "nothing"}).code, 2);
}

TEST(Program, DoesNotCallUnwrittenOutputASuccess) {
  const Ran full = Program{.path = TEPHRA_BINARY, .out_path = "/dev/full"}({"--help"});
  EXPECT_EQ(full.code, 3);
  EXPECT_EQ(full.err, "tephra: cannot write the output: No space left on device\n");
}

TEST(Program, EndsQuietlyWhenNobodyReads) {
  const Ran ran = Program{.path = TEPHRA_BINARY, .closed_pipe = true}({"--help"});
  EXPECT_EQ(ran.code, 141);
  EXPECT_EQ(ran.err, "");
}

// The cache folder of the test's own, so that the machine's real one stays as it is.
Program doctor(const Scratch& scratch) {
  return {.path = TEPHRA_BINARY,
          .environment = {"XDG_CACHE_HOME=" + std::string(scratch / "cache")}};
}

TEST(Doctor, GivesOneJsonDocumentAndNothingElse) {
  const Scratch scratch;
  const Ran ran = doctor(scratch)({"doctor", "--no-measure", "--json", "--threads", "3"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "doctor");
  EXPECT_FALSE(json.find("cpu")->find("model")->string().empty());
  EXPECT_GT(json.find("cpu")->find("cores")->integer(), 0);
  EXPECT_GT(json.find("memory")->find("bytes")->integer(), 0);
  EXPECT_EQ(json.find("threads")->integer(), 3);
  EXPECT_EQ(json.find("version")->string(), TEPHRA_VERSION);
  EXPECT_TRUE(json.find("ceilings")->is_null());
  EXPECT_FALSE(json.find("libraries")->find("oneDNN")->string().empty());
}

TEST(Doctor, KeepsWhatItMeasured) {
  const Scratch scratch;
  const Ran first = doctor(scratch)({"doctor", "--json", "--quiet"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.err, "");
  const Ran second = doctor(scratch)({"doctor", "--json", "--no-measure"});
  const Json a = Json::parse(first.out, "first"), b = Json::parse(second.out, "second");
  EXPECT_EQ(a.find("ceilings_source")->string(), "measured now");
  EXPECT_EQ(b.find("ceilings_source")->string(), "kept from an earlier run");
  EXPECT_EQ(a.find("ceilings")->dump(), b.find("ceilings")->dump());
  EXPECT_GT(a.find("ceilings")->find("gemm_gflops")->number(), 0);
  for (const Json& stream : a.find("ceilings")->find("streams")->array()) {
    EXPECT_GT(stream.find("gb_per_s")->number(), 0);
  }
  const Ran other = doctor(scratch)({"doctor", "--json", "--no-measure", "--threads", "7"});
  EXPECT_TRUE(Json::parse(other.out, "other").find("ceilings")->is_null());
}

TEST(Doctor, MeasuresAgainWhenTheKeptFileIsBroken) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch / "cache/tephra");
  for (const char* text : {"", "{", "[]", "{\"cpu\": 3}"}) {
    std::ofstream(scratch / "cache/tephra/machine.json") << text;
    const Ran ran = doctor(scratch)({"doctor", "--no-measure"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(contains(ran.err, "machine.json")) << ran.err;
    EXPECT_TRUE(contains(ran.out, "not measured")) << ran.out;
  }
}

TEST(Doctor, DoesNotMeasureAndNotMeasure) {
  EXPECT_EQ(tephra_program({"doctor", "--measure", "--no-measure"}).code, 2);
}

TEST(BenchOps, ListsTheOpsAndTheirBenches) {
  const Ran ran = tephra_program({"bench", "ops", "--list"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_TRUE(contains(ran.out, "rms_norm")) << ran.out;
  const Ran json = tephra_program({"bench", "ops", "--list", "--json"});
  EXPECT_EQ(Json::parse(json.out, "list").array()[0].find("op")->string(), "rms_norm");
}

TEST(BenchOps, NamesTheNearestOp) {
  const Ran ran = tephra_program({"bench", "ops", "--op", "rmsnorm"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.err,
            "tephra bench ops: --op: there is no op 'rmsnorm'; did you mean 'rms_norm'?\n"
            "  try: tephra bench ops --list\n");
}

// A preset has no folder, no weights and no tokenizer; tokens are events all the same.
TEST(BenchServe, TakesAPresetWithRandomWeights) {
  // It needs no place for files.
  const Program program{.path = TEPHRA_BINARY, .environment = {"TMPDIR=/nonexistent"}};
  const auto report_of = [&](const std::string& tokens) {
    const Ran ran = program({"bench", "serve", "--model", "tiny", "--device", "cpu", "--streams",
                             "2", "--seconds", "0.1", "--prompt-tokens", "8", "--new-tokens",
                             tokens, "--temperature", "0", "--json"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return Json::parse(ran.out, "bench");
  };
  const Json json = report_of("128");
  EXPECT_EQ(json.find("lost")->integer(), 0) << json.dump();
  EXPECT_EQ(json.find("temperature")->number(), 0);
  // Null where a busy machine hands over many events at once (serve/load_test.cpp has the rule).
  const Json* rate = json.find("tokens_per_second_after_the_first");
  EXPECT_TRUE(rate->is_null() || rate->number() > 0) << json.dump();
  EXPECT_GT(json.find("prompt_tokens_per_second_at_the_median")->number(), 0);
  // Few tokens come at once: no rate of theirs means anything.
  EXPECT_TRUE(report_of("5").find("tokens_per_second_after_the_first")->is_null());
}

TEST(BenchServe, EndsAtCtrlC) {
  const std::string script =
      std::string(TEPHRA_BINARY) +
      " bench serve --model tiny --device cpu --streams 2 --seconds 60 & p=$!; sleep 1; "
      "kill -INT $p; wait $p";
  const Ran ran = Program{.path = "/bin/bash"}({"-c", script});
  EXPECT_EQ(ran.code, 130) << ran.out << ran.err;
  EXPECT_EQ(ran.out, "");
}

TEST(BenchServe, GivesNoRatesWithoutAnswers) {
  const std::vector<std::string> nobody = {"bench",    "serve", "--model",   "tiny",
                                           "--device", "cpu",   "--streams", "1",
                                           "--port",   "1",     "--seconds", "0.01"};
  const Ran ran = tephra_program(nobody);
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_TRUE(contains(ran.out, "(no answer)")) << ran.out;
  EXPECT_FALSE(contains(ran.out, "milliseconds")) << ran.out;
  EXPECT_FALSE(contains(ran.out, "answers")) << ran.out;
  for (const char* flag : {"--throughput", "--kv-memory=2GiB"}) {
    std::vector<std::string> words = nobody;
    words.emplace_back(flag);
    const Ran refused = tephra_program(words);
    EXPECT_EQ(refused.code, 2) << refused.out;
    EXPECT_TRUE(contains(refused.err, "is for this command's own server; --port names another\n"))
        << refused.err;
  }
}

}  // namespace
}  // namespace tephra
