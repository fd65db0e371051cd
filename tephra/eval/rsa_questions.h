// SPDX-License-Identifier: Apache-2.0
// Questions put to a model by Markovian RSA: the tree of each, what every trace answered, and how
// often a single trace, the majority and the last round are right.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tephra/eval/environments.h"
#include "tephra/eval/questions.h"
#include "tephra/eval/votes.h"
#include "tephra/infer/rsa.h"

namespace tephra {

struct RsaQuestion {
  std::string id;
  std::string text;    // as people read it
  std::string answer;  // the right one; empty: not known
  RsaProblem problem;
  std::function<std::string(std::string_view text)> given;  // what votes, from a trace's text
  std::function<bool(std::string_view text)> right;         // unset: not known
};

// How texts become prompts and answers.
struct RsaForm {
  const Tokenizer* tokenizer = nullptr;
  PromptForm prompt;
  // The part of a trace that answers, without the reasoning before it; unset: all of it.
  std::function<std::string(std::string_view text)> said;
  Match match = Match::numeric;
  double tolerance = 1e-6;
};

// One that is asked alone; `answer` may be empty.
RsaQuestion rsa_question(const std::string& text, const std::string& answer, const RsaForm& form);
std::vector<RsaQuestion> rsa_questions(std::span<const Question> questions, const RsaForm& form);
// Held-out tasks; their own checkers tell what is right.
std::vector<RsaQuestion> rsa_tasks(const EnvironmentEvalOptions& options, const RsaForm& form);

struct RsaRound {
  std::vector<std::string> answers;  // of each trace; empty: none
  std::vector<Vote> votes;
  std::vector<bool> right;         // of each trace; empty when the right answer is not known
  double mean = 0;                 // share of right traces: the paper's score
  bool majority_right = false;     // the answer with the most votes
  std::optional<size_t> majority;  // its first voter; nothing when nobody answered
  RsaTokens tokens;
};

struct RsaOutcome {
  RsaTree tree;  // without the ids of tokens, of which no more is made
  std::vector<RsaRound> rounds;
  double seconds = 0;  // since the run began, when it ended

  // The trace whose text is the answer: of the last round's majority, else the first one that
  // ended by itself, else the first.
  size_t chosen() const;
};

RsaOutcome rsa_outcome(const RsaQuestion& question, RsaTree tree);
RsaRound rsa_round(const RsaQuestion& question, std::span<const RsaTrace> traces);

// Means over questions, with the answer known.
struct RsaScore {
  int64_t questions = 0;
  double single = 0;             // a trace of the first round
  double majority_of_first = 0;  // voting without aggregation
  std::vector<double> mean;      // by round
  std::vector<double> majority;  // by round
  Interval single_interval, first_interval, mean_interval, majority_interval;
  std::vector<RsaTokens> tokens;  // by round, of all questions
};
RsaScore summarize_rsa(std::span<const RsaOutcome> outcomes);

}  // namespace tephra
