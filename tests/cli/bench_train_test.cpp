// SPDX-License-Identifier: Apache-2.0
// The bench of training on a model that takes no time. Speeds are only checked to be there.
#include "tephra/cli/bench_train.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/program.h"

namespace tephra {
namespace {

TEST(TrainBench, HasTheModelOfTheConfigThatItNames) {
  RunConfig file;
  ConfigFile::read(TEPHRA_SOURCE_DIR "/configs/60m.toml", {}).load(file);
  const RunConfig built_in = train_bench_config();
  EXPECT_EQ(bench_model_json(built_in).dump(), bench_model_json(file).dump());
  EXPECT_EQ(built_in.phases.front().context, file.phases.front().context);
  EXPECT_EQ(built_in.step.micro_tokens, file.step.micro_tokens);
  EXPECT_EQ(built_in.name, file.name);
}

TEST(TrainBench, TakesWholeDocumentsOrAShorterOne) {
  const RunConfig config = train_bench_config();
  EXPECT_EQ(whole_documents(config, 512), 512);
  EXPECT_EQ(whole_documents(config, 2048), 2048);
  EXPECT_EQ(whole_documents(config, 5000), 4096);
}

TEST(TrainBench, FitsTheExponentOfGrowth) {
  Growth g{.of = "tokens", .tokens = 0, .points = {}};
  for (const int64_t size : {1, 2, 4, 8}) {
    g.points.push_back({.size = size, .step_seconds = 3 * std::pow(double(size), 1.25)});
  }
  EXPECT_NEAR(g.exponent(&GrowthPoint::step_seconds), 1.25, 1e-9);
}

TEST(TrainBench, MeasuresEveryPartOfAStep) {
  const Ran ran = Program{.path = TEPHRA_BINARY}(
      {"bench", "train", "--config", TEPHRA_SOURCE_DIR "/configs/quickstart.toml", "--set",
       "model.num_hidden_layers=2", "--set", "model.hidden_size=64", "--tokens", "64", "--quick",
       "--json", "--quiet"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  const Json& step = *json.find("forward_backward");
  for (const char* key : {"seconds", "model_flops", "six_n_flops", "mfu_model", "mfu_6n"}) {
    EXPECT_GT(step.find(key)->number(), 0) << key;
  }
  double in_kernels = 0;
  for (const Json& k : json.find("kernels")->array()) {
    in_kernels += k.find("forward_seconds")->number() + k.find("backward_seconds")->number();
  }
  EXPECT_GT(in_kernels, 0);
  EXPECT_GT(json.find("optimizer")->find("newton_schulz_share")->number(), 0);
  ASSERT_EQ(json.find("growth")->array().size(), 3u);
  for (const Json& g : json.find("growth")->array()) {
    EXPECT_GE(g.find("points")->array().size(), 2u) << g.find("of")->string();
  }
}

TEST(TrainBench, WantsTokensThatMakeDocuments) {
  const Ran ran = Program{.path = TEPHRA_BINARY}({"bench", "train", "--tokens", "3000"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("--tokens: expected a multiple of the context 2048, or less; got 3000"),
            std::string::npos)
      << ran.err;
}

std::string refused(std::vector<std::string> words) {
  words.insert(words.begin(), {"bench", "train", "--device", "cpu"});
  const Ran ran = Program{.path = TEPHRA_BINARY}(words);
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, "");
  return ran.err.substr(0, ran.err.find('\n'));
}

TEST(TrainBench, RefusesFlagsOfItsOtherUse) {
  const std::string for_config =
      " is for a config, which is measured on the CPU: with --device cpu, without --model";
  EXPECT_EQ(refused({"--model", "tiny", "--tokens", "7"}),
            "tephra bench train: --tokens" + for_config);
  EXPECT_EQ(refused({"--quick", "--model", "tiny"}), "tephra bench train: --quick" + for_config);
  EXPECT_EQ(refused({"--model", "tiny", "--set", "a=1"}), "tephra bench train: --set" + for_config);
  const std::string for_steps =
      " is for whole steps, of --model PRESET or on a GPU; a config on the CPU has --config FILE "
      "and "
      "--set KEY=VALUE";
  EXPECT_EQ(refused({"--hash"}), "tephra bench train: --hash" + for_steps);
  EXPECT_EQ(refused({"--micro-tokens", "2048"}), "tephra bench train: --micro-tokens" + for_steps);
  EXPECT_EQ(refused({"--recompute", "nope"}), "tephra bench train: --recompute" + for_steps);
}

// Were the 8 B model made first, its 19 GB would take longer than the test may.
TEST(TrainBench, ChecksItsFlagsBeforeTheModelIsMade) {
  EXPECT_TRUE(refused({"--model", "zaya1-8b", "--recompute", "nope"})
                  .starts_with("tephra bench train: --recompute: 'nope' is no op class"));
  EXPECT_EQ(refused({"--model", "zaya1-8b", "--profile"}),
            "tephra bench train: --profile: only kernels of a GPU are timed, got --device cpu");
  EXPECT_EQ(refused({"--model", "zaya1-8b", "--micro-tokens", "3"}),
            "tephra bench train: --micro-tokens: expected a multiple of --context 4096, got 3");
}

TEST(TrainBench, StopsWhenItIsAsked) {
  for (const char* signal : {"INT", "TERM"}) {
    const Ran ran = Program{.path = "/usr/bin/timeout"}(
        {"--preserve-status", "-s", signal, "1", TEPHRA_BINARY, "bench", "train", "--model", "tiny",
         "--device", "cpu", "--context", "16", "--micro-tokens", "64", "--batch-tokens", "1024",
         "--steps", "1000"});
    EXPECT_EQ(ran.code, 130) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST(AttentionBench, ComparesItsFormsWithMultiHeadAttention) {
  const Ran ran = Program{.path = TEPHRA_BINARY}({"bench", "attention", "--device", "cpu",
                                                  "--width", "128", "--head-dim", "16", "--tokens",
                                                  "24", "--seconds", "0", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "bench attention");
  const Json::Array& rows = json.find("rows")->array();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].find("forward_ratio")->number(), 1);
  for (const Json& row : rows) {
    EXPECT_GT(row.find("forward_seconds")->number(), 0);
    EXPECT_GT(row.find("backward_seconds")->number(), 0);
  }
  // MHA: four square projections; causal scores and sums of 24 tokens.
  EXPECT_EQ(rows[0].find("forward_flops")->number(), 2.0 * 24 * 4 * 128 * 128 + 4.0 * 128 * 300);
  const Ran uneven =
      Program{.path = TEPHRA_BINARY}({"bench", "attention", "--device", "cpu", "--width", "128",
                                      "--head-dim", "24", "--tokens", "24"});
  EXPECT_EQ(uneven.code, 2) << uneven.err;
}

TEST(AttentionBench, NamesTheFlagAndTheBoundsOfASizeItDoesNotTake) {
  const auto complaint = [](const char* flag, const char* value) {
    const Ran ran = Program{.path = TEPHRA_BINARY}({"bench", "attention", flag, value});
    EXPECT_EQ(ran.code, 2);
    return ran.err.substr(0, ran.err.find('\n'));
  };
  EXPECT_EQ(complaint("--head-dim", "64,1"),
            "tephra bench attention: --head-dim: expected 2 to 65536, got 1");
  EXPECT_EQ(complaint("--tokens", "2147483647"),
            "tephra bench attention: --tokens: expected 1 to 16777216, got 2147483647");
}

TEST(TrainBench, HashesTheStateThatEqualRunsShare) {
  const auto hash = [](const char* tokens) {
    const Ran ran = Program{.path = TEPHRA_BINARY}(
        {"bench",          "train", "--model",   "tiny", "--layers",       "1",
         "--vocabulary",   "64",    "--device",  "cpu",  "--dtype",        "bf16",
         "--matrices",     "adamw", "--context", "8",    "--micro-tokens", tokens,
         "--batch-tokens", "16",    "--steps",   "1",    "--hash",         "--json",
         "--quiet"});
    EXPECT_EQ(ran.code, 0) << ran.err;
    return Json::parse(ran.out, "stdout").find("state_hash")->string();
  };
  const std::string once = hash("8");
  EXPECT_EQ(once.size(), 16u);
  EXPECT_EQ(hash("8"), once);
}

}  // namespace
}  // namespace tephra
