// SPDX-License-Identifier: Apache-2.0
// Environments: task generators with checkers, the corpus that needs no download. A task is a pure
// function of (kind, level, seed, split); levels rise without end. Whether a task is for training
// or held out is decided by its content, so no held-out problem is ever trained on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tephra/data/environments/draw.h"

namespace tephra {

enum class Split { train, held_out };

struct Task {
  std::string prompt;
  std::string reasoning;  // worked lines, each a small step from the ones before
  std::string answer;
  // What makes two tasks the same problem; the prompt when empty.
  std::string content;
};

// A row of the table in registry.cpp.
struct Environment {
  const char* name;
  const char* summary;
  Task (*make)(Draw& draw, int64_t level);
  // Whether an answer, trimmed, is right.
  bool (*accepts)(const Task& task, std::string_view answer);
};

std::span<const Environment> environments();
// Fault::usage with the nearest name when there is none.
const Environment& find_environment(std::string_view name);

// Draws again until the task falls into the split; Fault::usage when a level has no such task.
Task generate(const Environment& environment, int64_t level, uint64_t seed, Split split);

Split split_of(const Environment& environment, const Task& task);

// Takes what follows the last "Answer:", or all of a text without one.
bool verify(const Environment& environment, const Task& task, std::string_view text);

// How a question is put, in training and in evaluation: what an answer follows.
inline std::string posed(const std::string& question) { return question + "\n"; }

// "REASONING\nAnswer: ANSWER": what a model is to write after the posed prompt.
std::string solution(const Task& task);

// Ready-made `accepts`.
bool same_text(const Task& task, std::string_view answer);     // spaces and commas may vary
bool same_integer(const Task& task, std::string_view answer);  // leading zeros and a plus may vary
bool same_words_in_any_order(const Task& task, std::string_view answer);

}  // namespace tephra
