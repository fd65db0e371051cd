// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/rsa_questions.h"

#include <algorithm>
#include <utility>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/text/aggregation.h"

namespace tephra {
namespace {

std::vector<int32_t> prompt_tokens(const std::string& question, const RsaForm& form) {
  return form.tokenizer->encode(form.prompt(question), form.prompt.special);
}

// The problem as it is put at first, and with attempts in it.
RsaProblem problem_of(const std::string& question, const RsaForm& form) {
  return {.prompt = prompt_tokens(question, form),
          .aggregate = [question, form](std::span<const std::string> tails) {
            return prompt_tokens(aggregation_text(question, tails), form);
          }};
}

std::string said_in(std::string_view text, const RsaForm& form) {
  return form.said ? form.said(text) : std::string(text);
}

// Spaces as the checkers of tasks see them, so that one answer is not counted as two. A text that
// was cut before its answer has none.
std::string evened_answer(std::string_view text) {
  std::string out;
  if (text.find("Answer:") == std::string_view::npos) return out;
  for (const char c : given_answer(text)) {
    const bool space = c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!space) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  return out;
}

}  // namespace

RsaQuestion rsa_question(const std::string& text, const std::string& answer, const RsaForm& form) {
  RsaQuestion q{.id = "1", .text = text, .answer = answer, .problem = problem_of(text, form)};
  q.given = [form](std::string_view trace) {
    const std::string said = said_in(trace, form);
    return trim(said).empty() ? std::string() : voted_answer(said, form.match);
  };
  if (!answer.empty()) {
    q.right = [form, answer](std::string_view trace) {
      return grade_answer(said_in(trace, form), answer, form.match, form.tolerance).right;
    };
  }
  return q;
}

std::vector<RsaQuestion> rsa_questions(std::span<const Question> questions, const RsaForm& form) {
  RsaForm as_is = form;  // a "prompt" is continued as it is, outside of any chat
  as_is.prompt = {.render = [](const std::string& text) { return text; }};
  as_is.said = {};
  std::vector<RsaQuestion> all;
  for (const Question& q : questions) {
    RsaQuestion& one = all.emplace_back(rsa_question(q.text, q.answer, q.whole ? as_is : form));
    one.id = q.id;
  }
  return all;
}

std::vector<RsaQuestion> rsa_tasks(const EnvironmentEvalOptions& options, const RsaForm& form) {
  std::vector<RsaQuestion> all;
  for (const EnvironmentLevel& at : options.levels) {
    int64_t number = 0;
    for (Task& task : draw_tasks(at, options)) {
      RsaQuestion& q = all.emplace_back();
      q.id = format("{}:{}/{}", at.environment->name, at.level, number++);
      q.text = task.prompt;
      q.answer = task.answer;
      q.problem = problem_of(task.prompt, form);
      q.given = [form](std::string_view trace) { return evened_answer(said_in(trace, form)); };
      q.right = [form, environment = at.environment, task](std::string_view trace) {
        return verify(*environment, task, said_in(trace, form));
      };
    }
  }
  return all;
}

RsaRound rsa_round(const RsaQuestion& q, std::span<const RsaTrace> traces) {
  RsaRound round;
  double right = 0;
  for (const RsaTrace& t : traces) {
    round.answers.push_back(q.given(t.text));
    if (!q.right) continue;
    round.right.push_back(q.right(t.text));
    right += round.right.back() ? 1 : 0;
  }
  round.mean = right / static_cast<double>(std::max<size_t>(1, traces.size()));
  round.votes = count_votes(round.answers);
  if (!round.votes.empty()) round.majority = round.votes[0].voters[0];
  round.majority_right = round.majority && q.right && round.right[*round.majority];
  round.tokens = tokens_of(traces);
  return round;
}

RsaOutcome rsa_outcome(const RsaQuestion& question, RsaTree tree) {
  RsaOutcome out{.tree = std::move(tree), .rounds = {}};
  for (auto& round : out.tree.rounds) {
    out.rounds.push_back(rsa_round(question, round));
    for (RsaTrace& t : round) {
      t.tokens = std::vector<int32_t>();  // gives the memory back, which {} and clear() do not
      t.tail_ids = std::vector<int32_t>();
    }
  }
  return out;
}

size_t RsaOutcome::chosen() const {
  const RsaRound& last = rounds.back();
  if (last.majority) return *last.majority;
  const std::vector<RsaTrace>& traces = tree.rounds.back();
  for (size_t i = 0; i < traces.size(); ++i) {
    if (traces[i].end != EndReason::length) return i;
  }
  return 0;
}

RsaScore summarize_rsa(std::span<const RsaOutcome> outcomes) {
  RsaScore score;
  score.questions = static_cast<int64_t>(outcomes.size());
  if (outcomes.empty()) return score;
  const size_t rounds = outcomes[0].rounds.size();
  score.mean.assign(rounds, 0);
  score.majority.assign(rounds, 0);
  score.tokens.assign(rounds, {});
  for (const RsaOutcome& o : outcomes) {
    for (size_t r = 0; r < rounds; ++r) {
      const RsaRound& round = o.rounds[r];
      score.mean[r] += round.mean;
      score.majority[r] += round.majority_right ? 1 : 0;
      score.tokens[r] += round.tokens;
    }
  }
  for (double& share : score.mean) share /= static_cast<double>(score.questions);
  for (double& share : score.majority) share /= static_cast<double>(score.questions);
  score.single = score.mean.front();
  score.majority_of_first = score.majority.front();
  score.single_interval = wilson(score.single, score.questions);
  score.first_interval = wilson(score.majority_of_first, score.questions);
  score.mean_interval = wilson(score.mean.back(), score.questions);
  score.majority_interval = wilson(score.majority.back(), score.questions);
  return score;
}

}  // namespace tephra
