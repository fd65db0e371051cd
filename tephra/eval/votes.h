// SPDX-License-Identifier: Apache-2.0
// Majority voting over the answers of several texts.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/eval/answers.h"

namespace tephra {

struct Vote {
  std::string answer;
  std::vector<size_t> voters;  // rising
};

// The answer in a text, in a form in which equal answers are equal texts: a number without needless
// zeros, or the text that exact_answer finds. Empty: there is none, and no vote.
std::string voted_answer(std::string_view text, Match match);

// The same for any text: a number where one is found, else the text.
std::string voted_answer(std::string_view text);

// By number of voters, of equals the one that was said first. Empty answers do not vote.
std::vector<Vote> count_votes(std::span<const std::string> answers);

}  // namespace tephra
