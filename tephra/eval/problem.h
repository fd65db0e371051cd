// SPDX-License-Identifier: Apache-2.0
// Problems put to a model: a prompt, what is asked for, and what the model answered.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/data/environments/environment.h"
#include "tephra/infer/batch_generate.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct Attempt {
  std::string text;    // what the model wrote, special tokens left out
  std::string given;   // the answer found in it
  int64_t tokens = 0;  // generated, without the end token
  FinishReason finish = FinishReason::length;
  bool right = false;
};

struct Problem {
  std::string where;   // for messages: "questions.jsonl:3"
  std::string prompt;  // the whole text that the model continues
  std::string answer;  // the right one
  int64_t max_new_tokens = 0;
  std::vector<Attempt> attempts;
  AddSpecial special = AddSpecial::before;  // that the tokenizer puts before the prompt
};

// How a question becomes a prompt.
struct PromptForm {
  std::function<std::string(const std::string& question)> render;  // unset: as in training
  // None where the rendered text has it already, as that of a chat template.
  AddSpecial special = AddSpecial::before;

  std::string operator()(const std::string& question) const {
    return render ? render(question) : posed(question);
  }
};

struct SolveOptions {
  Sampling sampling;
  int64_t samples = 1;            // attempts at each problem; more than one needs a temperature
  std::vector<std::string> stop;  // an attempt ends before any of these texts
  int64_t sequences = 128;        // attempts side by side; changes the speed alone
  // Attempts of a run before this one, by number of problem and of attempt; they are graded again.
  std::function<std::optional<Attempt>(size_t problem, size_t attempt)> known;
  // Called after each of the others.
  std::function<void(size_t problem, size_t attempt, const Attempt& made)> on_attempt;
};

// Where an answer was found, and whether it is right.
struct Grade {
  std::string given;
  bool right = false;
};
using Grader = std::function<Grade(const Problem& problem, std::string_view text)>;

// Fault::usage when the settings contradict each other.
void check_solve_options(const SolveOptions& options);

// Lets the model try every problem and grades what it wrote. An attempt depends on the model, the
// prompt, the sampling and the attempt's number alone, neither on the other problems nor on how
// many run side by side.
void solve(Model& model, const Tokenizer& tokenizer, std::span<Problem> problems,
           const SolveOptions& options, const Grader& grade);

}  // namespace tephra
