// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/votes.h"

#include <algorithm>

#include "tephra/base/format.h"

namespace tephra {

std::string voted_answer(std::string_view text, Match match) {
  if (match == Match::exact) return exact_answer(text);
  const std::optional<Number> number = numeric_answer(text);
  if (!number) return {};
  return number->decimal.empty() ? format("{:.9g}", number->value) : number->decimal;
}

std::string voted_answer(std::string_view text) {
  std::string number = voted_answer(text, Match::numeric);
  return number.empty() ? voted_answer(text, Match::exact) : number;
}

std::vector<Vote> count_votes(std::span<const std::string> answers) {
  std::vector<Vote> votes;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].empty()) continue;
    const auto known = std::find_if(votes.begin(), votes.end(),
                                    [&](const Vote& v) { return v.answer == answers[i]; });
    if (known == votes.end()) {
      votes.push_back({answers[i], {i}});
    } else {
      known->voters.push_back(i);
    }
  }
  std::stable_sort(votes.begin(), votes.end(),
                   [](const Vote& a, const Vote& b) { return a.voters.size() > b.voters.size(); });
  return votes;
}

}  // namespace tephra
