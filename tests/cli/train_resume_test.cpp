// SPDX-License-Identifier: Apache-2.0
// --resume DIR, and evaluations within a run: neither may change a bit of the training.
#include <optional>

#include "tephra/base/clock.h"
#include "tests/cli/train_run.h"

namespace tephra {
namespace {

class TrainResume : public Train {
 protected:
  std::string checkpoint(const std::string& run, int64_t step) const {
    return (run_dir(run) / "checkpoints" / format("step-{}", step)).string();
  }

  // Whether a checkpoint of the run waits for its evaluation.
  bool cut_short_in(const std::string& run) const {
    const Path folder = run_dir(run) / "checkpoints";
    if (!std::filesystem::exists(folder)) return false;
    for (const auto& item : std::filesystem::directory_iterator(folder)) {
      const Path manifest = item.path() / "manifest.json";
      if (!std::filesystem::exists(manifest)) continue;
      if (read_file(manifest).find("\"pending_line\"") != std::string::npos) return true;
    }
    return false;
  }
};

TEST_F(TrainResume, GoesBackToANamedCheckpointOfItsOwn) {
  const std::vector<std::string> keep_all{"--set", "checkpoints.keep_last=20"};
  ASSERT_EQ(kTephra(arguments("run", keep_all)).code, 0);
  const auto whole = files_of(run_dir("run"), 32);
  const std::string metrics = metrics_of(run_dir("run"));

  std::vector<std::string> back = keep_all;
  back.insert(back.end(), {"--resume", checkpoint("run", 9)});
  const Ran again = kTephra(arguments("run", back));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(std::filesystem::exists(checkpoint("run", 12) + ".set-aside"));
  EXPECT_EQ(files_of(run_dir("run"), 32), whole);
  EXPECT_EQ(metrics_of(run_dir("run")), metrics);
}

TEST_F(TrainResume, BranchesFromAnotherRun) {
  const auto run = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "checkpoints.every_steps=4"});
    return kTephra(arguments(name, more));
  };
  ASSERT_EQ(run("run", {}).code, 0);
  const Ran branch = run("branch", {"--resume", checkpoint("run", 16)});
  ASSERT_EQ(branch.code, 0) << branch.err;
  EXPECT_EQ(files_of(run_dir("branch"), 32), files_of(run_dir("run"), 32));
  EXPECT_EQ(metrics_of(run_dir("branch")), metrics_of(run_dir("run"))) << "with the steps before";
  // Another run folder: its newest.
  const Ran longer =
      run("longer", {"--resume", run_dir("run").string(), "--set", "phases.1.steps=14"});
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_TRUE(std::filesystem::exists(checkpoint("longer", 34)));

  const Ran twice = run("branch", {"--resume", checkpoint("run", 16)});
  EXPECT_EQ(twice.code, 2);
  EXPECT_NE(twice.err.find("has checkpoints of its own, up to step 32"), std::string::npos)
      << twice.err;
}

TEST_F(TrainResume, SaysWhatCannotBeResumedFrom) {
  const Ran none = kTephra(arguments("run", {"--resume", run_dir("nowhere").string()}));
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("there is no such folder"), std::string::npos) << none.err;
  const Ran other = kTephra(arguments("run", {"--resume", scratch_.path().string()}));
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.err.find("expected a checkpoint"), std::string::npos) << other.err;

  ASSERT_EQ(kTephra(arguments("whole")).code, 0);
  for (const auto& item : std::filesystem::directory_iterator(checkpoint("whole", 32))) {
    if (item.path().extension() != ".safetensors") continue;
    std::fstream file(item.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-9, std::ios::end);
    file.put('\x55');
  }
  const Ran damaged = kTephra(arguments("run", {"--resume", checkpoint("whole", 32)}));
  EXPECT_EQ(damaged.code, 3) << "one that was named is taken or nothing";
  EXPECT_NE(damaged.err.find("step-32"), std::string::npos) << damaged.err;
}

const std::vector<std::string> kEvaluation{"--set", "evaluation.tasks=3", "--set",
                                           "evaluation.every_steps=8"};

// The line of a step.
Json line_of(const Path& run, int64_t step) {
  const std::string text = read_file(run / "metrics.jsonl");
  for (const std::string_view line : split(text, '\n')) {
    if (line.empty()) continue;
    Json row = Json::parse(line, "metrics.jsonl");
    if (row.find("step")->integer() == step) return row;
  }
  return {};
}

TEST_F(TrainResume, EvaluationsChangeNoBitAndAreThoseOfEval) {
  ASSERT_EQ(kTephra(arguments("plain")).code, 0);
  const Ran ran = kTephra(arguments("looked", kEvaluation));
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const auto& [name, bytes] : files_of(run_dir("plain"), 32)) {
    if (!name.ends_with(".safetensors")) continue;
    EXPECT_EQ(read_file(Path(checkpoint("looked", 32)) / name) == bytes, true) << name;
  }
  EXPECT_EQ(line_of(run_dir("looked"), 7).find("eval"), nullptr);
  for (const int64_t step : {8, 16, 24, 32}) {
    const Json row = line_of(run_dir("looked"), step);
    EXPECT_EQ(row.find("loss")->dump(), line_of(run_dir("plain"), step).find("loss")->dump());
    ASSERT_NE(row.find("eval"), nullptr) << step;
    EXPECT_NE(row.find("eval")->find("reversing")->find("2"), nullptr);
  }

  const std::string model = run_dir("model").string();
  ASSERT_EQ(
      kTephra({"checkpoint", "export", "--from", run_dir("looked").string(), "--to", model}).code,
      0);
  const Ran after = kTephra({"eval", "--model", model, "--environments",
                             "addition:1-2,reversing:1-2", "--samples", "3", "--json", "--quiet"});
  ASSERT_EQ(after.code, 0) << after.err;
  const Json eval = line_of(run_dir("looked"), 32)["eval"];
  const Json found = Json::parse(after.out, "eval");
  for (const Json& row : found.find("environments")->find("rows")->array()) {
    const Json* level = eval.find(row.find("kind")->string())->find(row.find("level")->dump());
    ASSERT_NE(level, nullptr) << row.dump();
    EXPECT_EQ(level->number(), row.find("accuracy")->number()) << row.dump();
  }
}

TEST_F(TrainResume, AStopWithinAnEvaluationLosesNothing) {
  std::vector<std::string> slow = kEvaluation;
  slow[1] = "evaluation.tasks=24";
  ASSERT_EQ(kTephra(arguments("whole", slow)).code, 0);
  // The line before the evaluation is there, its own is not: it will soon be under way. How soon
  // depends on the machine, so later and later, until a stop comes within it.
  const Path metrics = run_dir("stopped") / "metrics.jsonl";
  bool within = false;
  for (double wait = 0.01; !within && wait < 10; wait *= 1.5) {
    std::filesystem::remove_all(run_dir("stopped"));
    std::optional<double> seen;
    const auto evaluating = [&] {
      if (!seen && std::filesystem::exists(metrics) &&
          read_file(metrics).find("\"step\":7,") != std::string::npos) {
        seen = steady_seconds();
      }
      return seen && steady_seconds() - *seen >= wait;
    };
    const bool ended = run_until("stopped", evaluating, SIGTERM, slow);
    within = !ended && cut_short_in("stopped");
  }
  EXPECT_TRUE(within);
  ASSERT_EQ(kTephra(arguments("stopped", slow)).code, 0);
  EXPECT_EQ(metrics_of(run_dir("stopped")), metrics_of(run_dir("whole")));
  EXPECT_EQ(files_of(run_dir("stopped"), 32), files_of(run_dir("whole"), 32));
}

TEST_F(TrainResume, RefusesAnEvaluationThatMakesNoSense) {
  const Ran ran = kTephra(arguments(
      "run", {"--set", "evaluation.tasks=3", "--set", "evaluation.environments=[\"additon:1\"]"}));
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("addition"), std::string::npos) << ran.err;
}

}  // namespace
}  // namespace tephra
