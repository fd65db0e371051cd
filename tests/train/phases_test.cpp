// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/phases.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace tephra {
namespace {

PhaseSettings phase(int64_t steps, int64_t context, int64_t batch_tokens) {
  PhaseSettings p;
  p.steps = steps;
  p.context = context;
  p.batch_tokens = batch_tokens;
  return p;
}

TEST(Phases, CountStepsAndTokensOverPhases) {
  const Phases phases({phase(3, 8, 32), phase(2, 16, 32)});
  EXPECT_EQ(phases.steps(), 5);
  EXPECT_EQ(phases.tokens(), 5 * 32);
  const StepInfo second = phases.at(1);
  EXPECT_EQ(second.phase, 0);
  EXPECT_EQ(second.samples, 4);
  EXPECT_EQ(second.first_sample, 4);
  EXPECT_EQ(second.tokens_before, 32);
  const StepInfo fourth = phases.at(3);
  EXPECT_EQ(fourth.phase, 1);
  EXPECT_EQ(fourth.step_in_phase, 0);
  EXPECT_EQ(fourth.context, 16);
  EXPECT_EQ(fourth.samples, 2);
  EXPECT_EQ(fourth.tokens_before, 96);
}

TEST(Phases, GrowTheBatchLinearlyAndThenHoldIt) {
  PhaseSettings p = phase(6, 8, 64);
  p.batch_ramp_from = 16;
  p.batch_ramp_steps = 4;
  const Phases phases({p});
  const int64_t expected[] = {2, 4, 5, 7, 8, 8};  // 2 + 6 t, rounded
  int64_t before = 0;
  for (int64_t s = 0; s < 6; ++s) {
    EXPECT_EQ(phases.at(s).samples, expected[s]) << s;
    EXPECT_EQ(phases.at(s).first_sample, before) << s;
    before += expected[s];
  }
  EXPECT_EQ(phases.tokens(), before * 8);
}

TEST(Phases, TakeAsManyStepsAsTheTokensNeed) {
  PhaseSettings p = phase(1, 8, 64);
  p.steps = {};
  p.tokens = 1000;
  EXPECT_EQ(Phases({p}).steps(), 16);  // 15 steps are 960 tokens
  p.batch_ramp_from = 8;
  p.batch_ramp_steps = 8;
  const Phases ramped({p});
  EXPECT_GE(ramped.tokens(), 1000);
  EXPECT_LT(ramped.tokens() - ramped.at(ramped.steps() - 1).tokens(), 1000);
}

TEST(Phases, WarmUpHoldAndDecayToTheEnd) {
  PhaseSettings p = phase(10, 8, 8);
  p.lr = 1.0;
  p.warmup_steps = 2;
  p.decay_steps = 4;
  p.end_lr = 0.2;
  const Phases phases({p});
  EXPECT_DOUBLE_EQ(phases.at(0).lr, 0.5);
  EXPECT_DOUBLE_EQ(phases.at(1).lr, 1.0);
  EXPECT_DOUBLE_EQ(phases.at(5).lr, 1.0);
  EXPECT_DOUBLE_EQ(phases.at(7).lr, 0.6);
  EXPECT_DOUBLE_EQ(phases.at(9).lr, 0.2);
}

TEST(RunConfig, RefusesABatchThatIsNoWholeNumberOfSamples) {
  const Error error = error_of([] {
    RunConfig config;
    ConfigFile::parse("[[phases]]\nsteps = 1\ncontext = 100\nbatch_tokens = 250\n", "a.toml")
        .load(config);
  });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(std::string(error.what()).find("a.toml:4"), std::string::npos) << error.what();
}

TEST(RunConfig, DumpsWhatItReads) {
  RunConfig config;
  ConfigFile::parse("seed = 7\n[model]\nhidden_size = 64\n[[phases]]\nsteps = 3\n", "a.toml")
      .load(config);
  const std::string dumped = dump_config(config);
  RunConfig again;
  ConfigFile::parse(dumped, "b.toml").load(again);
  EXPECT_EQ(dump_config(again), dumped);
  EXPECT_EQ(again.seed, 7);
  EXPECT_EQ(again.model.hidden_size, 64);
}

TEST(RunConfig, MakesAModelConfig) {
  ModelSettings s;
  s.hidden_size = 64;
  s.num_hidden_layers = 3;
  s.rope_theta = 1234;
  const Json config = model_config(s, 512);
  EXPECT_EQ(config.find("hidden_size")->integer(), 64);
  EXPECT_EQ(config.find("vocab_size")->integer(), 512);
  EXPECT_EQ(config.find("layer_types")->array().size(), 3u);
  EXPECT_EQ(config.find("rope_parameters")->find("hybrid")->find("rope_theta")->number(), 1234);
}

}  // namespace
}  // namespace tephra
