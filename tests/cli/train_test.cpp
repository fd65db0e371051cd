// SPDX-License-Identifier: Apache-2.0
// `tephra train` as a person runs it: to its end, stopped, killed, and with things gone wrong. A
// run that was stopped or killed ends with the same bytes as one that was not.
#include "tests/cli/train_run.h"

#include <functional>

#include "tephra/base/clock.h"
#include "tephra/core/rng.h"
#include "tests/support/temporary_place.h"

namespace tephra {
namespace {

int milliseconds_of(const std::function<void()>& work) {
  const double begin = steady_seconds();
  work();
  return static_cast<int>(1000 * (steady_seconds() - begin));
}

TEST_F(Train, EndsWithCheckpointsMetricsAndAModelThatCanBeExported) {
  const Ran ran = kTephra(arguments("run"));
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::string metrics = metrics_of(run_dir("run"));
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 32);
  EXPECT_EQ(std::filesystem::exists(run_dir("run") / "checkpoints" / "step-32"), true);
  EXPECT_EQ(std::filesystem::exists(run_dir("run") / "checkpoints" / "step-3"), false);

  const std::string model = run_dir("model").string();
  const Ran exported =
      kTephra({"checkpoint", "export", "--from", run_dir("run").string(), "--to", model});
  ASSERT_EQ(exported.code, 0) << exported.err;
  const Ran text = kTephra(
      {"generate", "--model", model, "--prompt", "1 + 1", "--max-new-tokens", "4", "--ignore-eos"});
  EXPECT_EQ(text.code, 0) << text.err;
  // Fine-tuning starts from what was exported.
  const Ran tuned = kTephra({"train", config(), "--init-from", model, "--out",
                             run_dir("tuned").string(), "--quiet", "--set", "phases.0.steps=2"});
  EXPECT_EQ(tuned.code, 0) << tuned.err;
}

TEST_F(Train, IsTheSameOnAnyNumberOfThreads) {
  ASSERT_EQ(kTephra(arguments("two")).code, 0);
  std::vector<std::string> on_three = arguments("three");
  on_three.back() = "3";
  ASSERT_EQ(kTephra(on_three).code, 0);
  EXPECT_EQ(metrics_of(run_dir("two")), metrics_of(run_dir("three")));
  EXPECT_EQ(files_of(run_dir("two"), 32), files_of(run_dir("three"), 32));
}

TEST_F(Train, SavesWhenItIsToldToStopAndGoesOn) {
  const int whole = milliseconds_of([&] { ASSERT_EQ(kTephra(arguments("whole")).code, 0); });
  bool ended = false;
  for (int i = 0; i < 100 && !ended; ++i) {
    const double part = 0.3 + 0.7 * uniform({18, 0, 0}, uint64_t(i));
    ended = run_for("stopped", static_cast<int>(part * whole), SIGTERM);
  }
  ASSERT_TRUE(ended);
  EXPECT_EQ(metrics_of(run_dir("stopped")), metrics_of(run_dir("whole")));
  EXPECT_EQ(files_of(run_dir("stopped"), 32), files_of(run_dir("whole"), 32));
}

TEST_F(Train, SurvivesBeingKilledAtThirtyInstants) {
  const TemporaryPlace temporary;
  const int whole = milliseconds_of([&] { ASSERT_EQ(kTephra(arguments("whole")).code, 0); });
  int kills = 0;
  bool ended = false;
  // Runs that end are started again from nothing, until there were enough kills.
  for (int i = 0; i < 400 && (kills < 30 || !ended); ++i) {
    if (ended) std::filesystem::remove_all(run_dir("killed"));
    const int milliseconds = static_cast<int>(uniform({17, 0, 0}, uint64_t(i)) * 0.8 * whole);
    ended = run_for("killed", milliseconds, SIGKILL);
    if (!ended) ++kills;
  }
  ASSERT_GE(kills, 30);
  ASSERT_TRUE(ended);
  EXPECT_EQ(metrics_of(run_dir("killed")), metrics_of(run_dir("whole")));
  EXPECT_EQ(files_of(run_dir("killed"), 32), files_of(run_dir("whole"), 32));
  EXPECT_EQ(temporary.names(), std::vector<std::string>{});
}

TEST_F(Train, FallsBackFromADamagedCheckpoint) {
  ASSERT_EQ(kTephra(arguments("whole")).code, 0);
  ASSERT_EQ(kTephra(arguments("run", {"--set", "checkpoints.keep_last=3"})).code, 0);
  const Path newest = run_dir("run") / "checkpoints" / "step-32";
  for (const auto& item : std::filesystem::directory_iterator(newest)) {
    if (item.path().extension() != ".safetensors") continue;
    std::fstream file(item.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-9, std::ios::end);
    file.put('\x55');
  }
  const Ran again = kTephra(arguments("run"));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("step-32"), std::string::npos) << again.err;
  EXPECT_EQ(files_of(run_dir("run"), 32), files_of(run_dir("whole"), 32));
}

TEST_F(Train, RollsBackPastBadDataAndSaysWhenThatDoesNotHelp) {
  const Ran ran =
      kTephra(arguments("run", {"--set", "guard.spike=0.01", "--set", "guard.window=8", "--set",
                                "guard.action=rollback", "--set", "guard.most_skips=3"}));
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_NE(ran.err.find("back to step"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("guard.most_skips"), std::string::npos) << ran.err;
}

// The second phase breaks the model in its first step, the 21st; all that follow are bad.
TEST_F(Train, NoGoodCheckpointMakesRoomWhileStepsAreBad) {
  const Ran ran =
      kTephra(arguments("run", {"--set", "phases.1.lr=1e30", "--set", "guard.action=skip", "--set",
                                "guard.most_skips=5", "--set", "checkpoints.every_steps=2", "--set",
                                "checkpoints.keep_last=2"}));
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(run_dir("run") / "checkpoints" / "step-20")) << ran.err;
}

// The rate of the second phase makes its second step bad, whatever its data; ten steps after the
// checkpoint, when a window of 8 has forgotten the time before.
TEST_F(Train, DoesNotRollBackForEver) {
  const Ran ran = kTephra(arguments(
      "run", {"--set", "phases.1.lr=50", "--set", "guard.spike=6", "--set", "guard.window=8",
              "--set", "guard.action=rollback", "--set", "guard.rollback_steps=1", "--set",
              "guard.most_skips=4", "--set", "checkpoints.every_steps=12"}));
  EXPECT_EQ(ran.code, 3) << ran.err;
  EXPECT_NE(ran.err.find("went back to step 12 4 times and came no further"), std::string::npos)
      << ran.err;
}

// The second phase, which has a RoPE base of its own, comes to grief; the checkpoint is of the
// first.
TEST_F(Train, ARollbackIntoAnEarlierPhaseIsThatPhaseAgain) {
  const std::vector<std::string> wild{"--set", "phases.1.lr=50", "--set",
                                      "checkpoints.every_steps=16"};
  std::vector<std::string> guarded = wild;
  for (const char* rule : {"guard.spike=6", "guard.window=32", "guard.action=rollback",
                           "guard.rollback_steps=0", "guard.most_skips=2"}) {
    guarded.insert(guarded.end(), {"--set", rule});
  }
  kTephra(arguments("plain", wild));
  const Ran ran = kTephra(arguments("guarded", guarded));
  EXPECT_EQ(ran.code, 3) << ran.err;
  ASSERT_NE(ran.err.find("back to step 16"), std::string::npos) << ran.err;
  const std::string all = metrics_of(run_dir("plain")), again = metrics_of(run_dir("guarded"));
  const auto lines = [](const std::string& text) { return split(text, '\n'); };
  ASSERT_GE(lines(again).size(), 20u) << ran.err;
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(lines(again)[i], lines(all)[i]);
}

TEST_F(Train, RefusesAnotherModelInTheSameFolder) {
  ASSERT_EQ(kTephra(arguments("run", {"--set", "phases.0.steps=2"})).code, 0);
  const std::string chat_template = read_file(run_dir("run") / "model" / "chat_template.jinja");
  std::ofstream(scratch_ / "other.jinja") << "{{ messages }}";
  const Ran other =
      kTephra(arguments("run", {"--set", "model.hidden_size=64", "--set",
                                "data.chat_template=" + (scratch_ / "other.jinja").string()}));
  EXPECT_EQ(read_file(run_dir("run") / "model" / "chat_template.jinja"), chat_template)
      << "the run folder is as it was";
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("model.hidden_size"), std::string::npos) << other.err;
  const Ran fresh = kTephra(arguments(
      "run", {"--resume", "never", "--set", "model.hidden_size=64", "--set", "phases.0.steps=2"}));
  EXPECT_EQ(fresh.code, 0) << fresh.err;
}

TEST_F(Train, SaysWhatIsWrongWithAConfig) {
  const Ran typo = kTephra(arguments("run", {"--set", "optimizer.clipnorm=1"}));
  EXPECT_EQ(typo.code, 2);
  EXPECT_NE(typo.err.find("clip_norm"), std::string::npos) << typo.err;
  for (const char* huge : {"phases.0.steps=9000000000000000000", "phases.0.lr=inf",
                           "phases.0.batch_ramp_steps=9000000000000000000"}) {
    const Ran ran = kTephra(arguments("run", {"--plan", "--set", huge}));
    EXPECT_EQ(ran.code, 2) << huge << ": " << ran.err;
  }
  for (const auto& [set, said] : std::vector<std::pair<std::string, std::string>>{
           {"model.num_key_value_heads=3", "key/value heads"},
           {"phases.0.mixture=[{source=\"task\"}]", "did you mean 'tasks'?"},
           {"model.max_position_embeddings=100", "phase 'longer': a context of 128 is more"},
           {[] {
              std::string deep = "a";
              for (int i = 0; i < 50'000; ++i) deep += ".a";
              return deep + "=1";
            }(),
            "a key of more than 64 names"}}) {
    const Ran ran = kTephra(arguments("run", {"--plan", "--set", set}));
    EXPECT_EQ(ran.code, 2) << set.substr(0, 80) << ": " << ran.err;
    EXPECT_NE(ran.err.find(said), std::string::npos) << ran.err;
  }
  const Ran half = kTephra(arguments("run", {"--plan", "--set", "phases.1.batch_ramp_steps=3"}));
  EXPECT_EQ(half.code, 2) << half.err;
  EXPECT_NE(half.err.find("batch_ramp_from"), std::string::npos) << half.err;
  const Ran missing = kTephra({"train", "/does/not/exist.toml"});
  EXPECT_EQ(missing.code, 2);
  const Ran plan = kTephra(arguments("planned", {"--plan"}));
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("activations"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(run_dir("planned")));
  for (const auto& [device, name] : std::vector<std::pair<std::string, std::string>>{
           {"gpu", "gpu:0"}, {"gpu:0", "gpu:0"}, {"gpu:4096", "gpu:4096"}}) {
    const Ran elsewhere = kTephra(arguments("planned", {"--plan", "--device", device}));
    EXPECT_EQ(elsewhere.code, 0) << elsewhere.err;
    EXPECT_NE(elsewhere.out.find("memory of " + name), std::string::npos) << elsewhere.out;
    EXPECT_NE(elsewhere.out.find("memory of the host"), std::string::npos) << elsewhere.out;
    // The host of a device that is not here is not this one.
    const bool here = elsewhere.out.find("not on this machine") == std::string::npos;
    EXPECT_EQ(elsewhere.out.find("this machine  ") != std::string::npos, here) << elsewhere.out;
  }
  const Ran dry = kTephra({"train", config(), "--dry-run", "--out", run_dir("dry").string()});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.err.find("dry run: 2 steps"), std::string::npos) << dry.err;
  EXPECT_FALSE(std::filesystem::exists(run_dir("dry")));
}

}  // namespace
}  // namespace tephra
