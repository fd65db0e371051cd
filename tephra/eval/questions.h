// SPDX-License-Identifier: Apache-2.0
// Questions from a JSONL file: one object a line with "question" (or "prompt") and "answer".
#pragma once

#include <optional>

#include "tephra/base/files.h"
#include "tephra/eval/answers.h"
#include "tephra/eval/score.h"

namespace tephra {

struct Question {
  std::string where;   // "file.jsonl:3"
  std::string id;      // the file's own, else the number of the line
  std::string text;    // the question, or the whole prompt
  bool whole = false;  // a prompt, to be continued as it is
  std::string answer;
};

// Fault::usage when there is no such file; Fault::data, with file and line, when it is wrong. With
// Match::numeric an answer without a number is wrong.
std::vector<Question> read_questions(const Path& path, Match match);

struct QuestionOptions {
  Match match = Match::numeric;
  double tolerance = 1e-6;
  int64_t max_new_tokens = 512;
  std::vector<int64_t> ks;  // of pass@k
  PromptForm form;
  SolveOptions solve;
};

struct QuestionScore {
  Score score;
  std::vector<std::string> ids;  // of the problems
  std::vector<Problem> problems;
};

QuestionScore evaluate_questions(Model& model, const Tokenizer& tokenizer,
                                 std::span<const Question> questions,
                                 const QuestionOptions& options);

// A function for PromptForm::render from a text with the mark {question}; "\n", "\t" and "\\" in it
// stand for a newline, a tab and a backslash. Fault::usage without the mark.
std::function<std::string(const std::string&)> prompt_template(const std::string& text);

}  // namespace tephra
