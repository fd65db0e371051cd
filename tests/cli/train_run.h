// SPDX-License-Identifier: Apache-2.0
// Whole runs of `tephra train` for tests: a small config with two phases, a batch ramp and router
// balancing, and what is compared of two runs.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <functional>
#include <thread>

#include "tephra/base/files.h"
#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {

inline const Program kTephra{TEPHRA_BINARY};

inline constexpr const char* kTrainConfig = R"(
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
  Train() { std::ofstream(scratch_ / "small.toml") << kTrainConfig; }

  std::string config() const { return (scratch_ / "small.toml").string(); }
  Path run_dir(const std::string& name) const { return scratch_ / name; }
  std::vector<std::string> arguments(const std::string& run,
                                     const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"train",   config(),    "--out", run_dir(run).string(),
                                 "--quiet", "--threads", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Starts the run and sends the signal when `now` says so; true when it ended by itself before.
  bool run_until(const std::string& run, const std::function<bool()>& now, int signal,
                 const std::vector<std::string>& more = {}) const {
    const std::vector<std::string> words = arguments(run, more);
    std::vector<char*> argv{const_cast<char*>(TEPHRA_BINARY)};
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      execv(TEPHRA_BINARY, argv.data());
      _exit(127);
    }
    int status = 0;
    bool ended = false;
    while (!ended && !now()) {
      ended = waitpid(child, &status, WNOHANG) == child;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!ended) {
      kill(child, signal);
      waitpid(child, &status, 0);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  // The same after so many milliseconds.
  bool run_for(const std::string& run, int milliseconds, int signal) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    return run_until(
        run, [end] { return std::chrono::steady_clock::now() >= end; }, signal);
  }

  Scratch scratch_;
};

// metrics.jsonl without the times.
inline std::string metrics_of(const Path& run) {
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
inline std::vector<std::pair<std::string, std::string>> files_of(const Path& run, int64_t step) {
  std::vector<std::pair<std::string, std::string>> files;
  const Path folder = run / "checkpoints" / format("step-{}", step);
  for (const auto& item : std::filesystem::directory_iterator(folder)) {
    files.emplace_back(item.path().filename().string(), read_file(item.path()));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace tephra
