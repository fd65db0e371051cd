// SPDX-License-Identifier: Apache-2.0
// Accuracy on held-out tasks of Environments, by kind and level. A task is put as it is trained:
// the prompt and a newline, after which the model writes the solution and its end token.
#pragma once

#include <optional>

#include "tephra/data/environments/aggregation.h"
#include "tephra/eval/score.h"

namespace tephra {

struct EnvironmentLevel {
  const Environment* environment;
  int64_t level;
};

// "addition:1-3,sorting:2,dates": kinds with a level or a range of them, level 1 where none is
// given; "all:1-3" stands for every kind. Fault::usage naming the part that makes no sense.
std::vector<EnvironmentLevel> parse_environments(std::string_view list);

struct EnvironmentEvalOptions {
  std::vector<EnvironmentLevel> levels;
  int64_t tasks = 100;  // different ones of each level
  uint64_t seed = 0;    // of the tasks
  Split split = Split::held_out;
  int64_t max_new_tokens = 0;  // 0: twice the tokens of the task's own solution, and 16
  std::vector<int64_t> ks;     // of pass@k
  PromptForm form;             // as in training when left alone
  SolveOptions solve;
  // Set: tasks have attempts at them in their prompts, some wrong, and each is to be solved.
  std::optional<AggregationForm> aggregation;
};

// The different tasks of one level that the options ask for, in their order.
std::vector<Task> draw_tasks(const EnvironmentLevel& at, const EnvironmentEvalOptions& options);

// What follows the last "Answer:", or all of a text without one.
std::string given_answer(std::string_view text);

struct EnvironmentScore {
  EnvironmentLevel at;
  Score score;
  std::vector<Problem> problems;
};

// A level that has fewer different tasks is asked them all; its count says so.
std::vector<EnvironmentScore> evaluate_environments(Model& model, const Tokenizer& tokenizer,
                                                    const EnvironmentEvalOptions& options);

// The mean over all tasks of all levels.
Score overall(std::span<const EnvironmentScore> scores);

// The tasks that evaluate_environments would ask, as a model is trained on them: what it is given,
// then what it is to write.
struct TaskText {
  std::string prompt, solution;
};
std::vector<TaskText> environment_texts(const EnvironmentEvalOptions& options);

}  // namespace tephra
