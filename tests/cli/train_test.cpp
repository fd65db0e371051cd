// SPDX-License-Identifier: Apache-2.0
// `tephra train` as a person runs it: to its end, stopped, killed, and with things gone wrong. A
// run that was stopped or killed ends with the same bytes as one that was not.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "tephra/base/clock.h"
#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/core/rng.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const Program kTephra{TEPHRA_BINARY};

constexpr const char* kConfig = R"(
name = "small"
seed = 3
[model]
hidden_size = 32
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 1
head_dim = 16
num_experts = 4
moe_intermediate_size = 32
router_hidden_size = 16
max_position_embeddings = 256
[[data.sources]]
name = "tasks"
kind = "environments"
environments = ["addition", "reversing"]
max_level = 2
[[phases]]
name = "first"
steps = 20
context = 64
batch_tokens = 256
batch_ramp_from = 128
batch_ramp_steps = 5
lr = 5e-3
warmup_steps = 4
[[phases]]
name = "longer"
steps = 12
context = 128
rope_theta = 100000.0
batch_tokens = 256
lr = 3e-3
start_lr = 0.5
[step]
micro_tokens = 128
[checkpoints]
every_steps = 3
keep_last = 2
keep_every = 16
[validation]
every_steps = 8
samples = 2
)";

class Train : public ::testing::Test {
 protected:
  Train() { std::ofstream(scratch_ / "small.toml") << kConfig; }

  std::string config() const { return (scratch_ / "small.toml").string(); }
  Path run_dir(const std::string& name) const { return scratch_ / name; }
  std::vector<std::string> arguments(const std::string& run,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"train",   config(),    "--out", run_dir(run).string(),
                                 "--quiet", "--threads", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Starts the run and kills it after so many milliseconds; true when it ended by itself before.
  bool run_for(const std::string& run, int milliseconds, int signal) const {
    const std::vector<std::string> words = arguments(run);
    std::vector<char*> argv{const_cast<char*>(TEPHRA_BINARY)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      execv(TEPHRA_BINARY, argv.data());
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    kill(child, signal);
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  Scratch scratch_;
};

int milliseconds_of(const std::function<void()>& work) {
  const double begin = steady_seconds();
  work();
  return static_cast<int>(1000 * (steady_seconds() - begin));
}

// metrics.jsonl without the times.
std::string metrics_of(const Path& run) {
  std::string out;
  const std::string text = read_file(run / "metrics.jsonl");
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    Json row = Json::parse(line, "metrics.jsonl");
    row["timing"] = Json();
    out += row.dump() + "\n";
  }
  return out;
}

// Every file of the last checkpoint by name.
std::vector<std::pair<std::string, std::string>> files_of(const Path& run, int64_t step) {
  std::vector<std::pair<std::string, std::string>> files;
  const Path folder = run / "checkpoints" / format("step-{}", step);
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    files.emplace_back(item.path().filename().string(), read_file(item.path()));
  }
  std::sort(files.begin(), files.end());
  return files;
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

TEST_F(Train, RefusesAnotherModelInTheSameFolder) {
  ASSERT_EQ(kTephra(arguments("run", {"--set", "phases.0.steps=2"})).code, 0);
  const Ran other = kTephra(arguments("run", {"--set", "model.hidden_size=64"}));
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
  const Ran missing = kTephra({"train", "/does/not/exist.toml"});
  EXPECT_EQ(missing.code, 2);
  const Ran plan = kTephra(arguments("planned", {"--plan"}));
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("activations"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(run_dir("planned")));
  const Ran dry = kTephra({"train", config(), "--dry-run", "--out", run_dir("dry").string()});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.err.find("dry run: 2 steps"), std::string::npos) << dry.err;
  EXPECT_FALSE(std::filesystem::exists(run_dir("dry")));
}

}  // namespace
}  // namespace tephra
