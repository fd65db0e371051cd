// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/environments/aggregation.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/text/aggregation.h"

namespace tephra {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kSmallLetters = "abcdefghijklmnopqrstuvwxyz";

// Another character of the same kind; digits turn into digits.
char slip_of(Draw& draw, char c) {
  const std::string_view kind = kDigits.find(c) != std::string_view::npos ? kDigits : kSmallLetters;
  char other = c;
  while (other == c) other = draw.pick(kind);
  return other;
}

// One character wrong, a digit where there is one. Most slips of a small model are of this kind.
std::string with_slip(Draw& draw, std::string text) {
  std::vector<size_t> places;
  for (const std::string_view kind : {kDigits, kSmallLetters}) {
    if (!places.empty()) break;
    for (size_t i = 0; i < text.size(); ++i) {
      if (kind.find(text[i]) != std::string_view::npos) places.push_back(i);
    }
  }
  if (places.empty()) return text;
  const size_t at =
      places[static_cast<size_t>(draw.between(0, static_cast<int64_t>(places.size()) - 1))];
  text[at] = slip_of(draw, text[at]);
  return text;
}

// A wrong answer: a slip in the right one, or the answer to a neighbouring problem.
std::string wrong_answer(Draw& draw, const TaskOrigin& o, const Task& task) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    std::string answer = draw.flip()
                             ? with_slip(draw, task.answer)
                             : generate(*o.environment, o.level, draw.bits(), o.split).answer;
    if (!o.environment->accepts(task, answer)) return answer;
  }
  return task.answer + "?";
}

std::string wrong_attempt(Draw& draw, const TaskOrigin& o, const Task& task) {
  switch (draw.between(0, 2)) {
    case 0: {  // a neighbouring problem was solved
      const Task other = generate(*o.environment, o.level, draw.bits(), o.split);
      if (!o.environment->accepts(task, other.answer)) return solution(other);
      break;
    }
    case 1:  // the steps are right, and the answer is not what they say
      return format("{}\nAnswer: {}", task.reasoning, wrong_answer(draw, o, task));
    default:
      break;
  }
  return format("{}\nAnswer: {}", with_slip(draw, task.reasoning), wrong_answer(draw, o, task));
}

// As a trace that reached its limit of tokens.
std::string cut_short(Draw& draw, const std::string& text) {
  const auto size = static_cast<int64_t>(text.size());
  return text.substr(0, static_cast<size_t>(draw.between(size / 4, size - 1)));
}

}  // namespace

std::vector<std::string> attempts_at(const TaskOrigin& origin, const Task& task,
                                     int64_t candidates) {
  require(candidates >= 1, "aggregation: expected 1 or more candidates, got {}", candidates);
  Draw draw({origin.seed, stream_of(format("attempts/{}", origin.environment->name)),
             static_cast<uint32_t>(origin.level)},
            0);
  const int64_t right = draw.between(0, candidates);
  constexpr int64_t kCutShare = 8;  // one attempt in eight
  std::vector<std::string> attempts;
  for (int64_t i = 0; i < candidates; ++i) {
    const std::string whole = i < right ? solution(task) : wrong_attempt(draw, origin, task);
    const bool cut = draw.between(1, kCutShare) == 1;
    attempts.push_back(cut ? cut_short(draw, whole) : whole);
  }
  draw.shuffle(attempts);
  return attempts;
}

Task with_attempts(const TaskOrigin& origin, const Task& task, const AggregationForm& form) {
  std::vector<std::string> tails = attempts_at(origin, task, form.candidates);
  if (form.tail) {
    for (std::string& attempt : tails) attempt = form.tail(attempt);
  }
  Task posed = task;
  if (posed.content.empty()) posed.content = task.prompt;  // the same problem, to the split
  posed.prompt = aggregation_text(task.prompt, tails);
  return posed;
}

}  // namespace tephra
