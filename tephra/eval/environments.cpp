// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/environments.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "tephra/base/error.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/core/rng.h"

namespace tephra {
namespace {

struct Range {
  int64_t low = 1, high = 1;
};

std::optional<int64_t> level_in(std::string_view text) {
  int64_t level = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), level);
  if (error != std::errc() || end != text.data() + text.size() || level < 1) return std::nullopt;
  return level;
}

Range parse_levels(std::string_view item, std::string_view levels) {
  const size_t dash = levels.find('-');
  const auto low = level_in(trim(levels.substr(0, dash)));
  const auto high = dash == std::string_view::npos ? low : level_in(trim(levels.substr(dash + 1)));
  constexpr int64_t kMost = 1000;
  require(low && high && *low <= *high && *high - *low < kMost,
          "'{}': expected KIND:LEVEL or KIND:LOW-HIGH with levels from 1 on, as in addition:1-3",
          clipped(item, 60));
  return {*low, *high};
}

void add_levels(const Environment& environment, Range range, std::vector<EnvironmentLevel>& to) {
  for (int64_t level = range.low; level <= range.high; ++level) {
    for (const EnvironmentLevel& known : to) {
      require(known.environment != &environment || known.level != level,
              "{} at level {} is named twice", environment.name, level);
    }
    to.push_back({&environment, level});
  }
}

// Seeds of a run's tasks: far from those of a run with a neighbouring seed.
uint64_t task_seed(uint64_t seed, uint64_t number) {
  const auto bits = philox({seed, stream_of("eval.environments"), 0}, number);
  return (uint64_t{bits[0]} << 32) | bits[1];
}

std::vector<Problem> pose(const EnvironmentLevel& at, std::span<const Task> tasks,
                          const Tokenizer& tokenizer, const EnvironmentEvalOptions& options) {
  std::vector<std::string> solutions;
  for (const Task& task : tasks) solutions.push_back(solution(task));
  const std::vector<std::string_view> views(solutions.begin(), solutions.end());
  const auto encoded = encode_batch(tokenizer, views);
  std::vector<Problem> problems;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const auto own = 2 * static_cast<int64_t>(encoded[i].size()) + 16;
    problems.push_back({.where = format("{} level {} task {}", at.environment->name, at.level, i),
                        .prompt = options.form(tasks[i].prompt),
                        .answer = tasks[i].answer,
                        .max_new_tokens = options.max_new_tokens > 0 ? options.max_new_tokens : own,
                        .attempts = {},
                        .special = options.form.special});
  }
  return problems;
}

}  // namespace

// Different tasks, so that none counts twice. A low level may not have as many as are asked for.
std::vector<Task> draw_tasks(const EnvironmentLevel& at, const EnvironmentEvalOptions& options) {
  const auto wanted = static_cast<size_t>(options.tasks);
  std::vector<Task> tasks;
  std::set<std::string> seen;
  size_t misses = 0;  // many for each that was found: there are no more
  for (uint64_t i = 0; tasks.size() < wanted && misses < 10 * tasks.size() + 1000; ++i) {
    stop_if_interrupted();
    Task task = generate(*at.environment, at.level, task_seed(options.seed, i), options.split);
    if (!seen.insert(task.content.empty() ? task.prompt : task.content).second) {
      ++misses;
      continue;
    }
    if (options.aggregation) {
      task = with_attempts({at.environment, at.level, task_seed(options.seed, i), options.split},
                           task, *options.aggregation);
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string given_answer(std::string_view text) {
  constexpr std::string_view kMark = "Answer:";
  const size_t at = text.rfind(kMark);
  return std::string(trim(at == std::string_view::npos ? text : text.substr(at + kMark.size())));
}

std::vector<EnvironmentLevel> parse_environments(std::string_view list) {
  std::vector<EnvironmentLevel> levels;
  for (const std::string_view untrimmed : split(list, ',')) {
    const std::string_view item = trim(untrimmed);
    const size_t colon = item.find(':');
    const std::string_view name = trim(item.substr(0, colon));
    const Range range =
        colon == std::string_view::npos ? Range{} : parse_levels(item, item.substr(colon + 1));
    require(!name.empty(), "'{}': expected a list of environments, as in addition:1-3,sorting:2",
            clipped(list, 60));
    if (name == "all") {
      for (const Environment& environment : environments()) {
        add_levels(environment, range, levels);
      }
    } else {
      add_levels(find_environment(name), range, levels);
    }
  }
  return levels;
}

std::vector<EnvironmentScore> evaluate_environments(Model& model, const Tokenizer& tokenizer,
                                                    const EnvironmentEvalOptions& options) {
  require(options.tasks >= 1, "expected 1 or more tasks of each level, got {}", options.tasks);
  // All levels in one batch: long ones then fill the places that short ones leave.
  std::vector<Problem> problems;
  std::vector<std::pair<const Environment*, Task>> asked;
  std::vector<size_t> ends;
  for (const EnvironmentLevel& at : options.levels) {
    std::vector<Task> tasks = draw_tasks(at, options);
    for (Problem& p : pose(at, tasks, tokenizer, options)) {
      problems.push_back(std::move(p));
    }
    for (Task& task : tasks) asked.emplace_back(at.environment, std::move(task));
    ends.push_back(problems.size());
  }
  solve(model, tokenizer, problems, options.solve, [&](const Problem& p, std::string_view text) {
    const auto& [environment, task] = asked[static_cast<size_t>(&p - problems.data())];
    return Grade{given_answer(text), verify(*environment, task, text)};
  });

  std::vector<EnvironmentScore> scores;
  size_t begin = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    EnvironmentScore& score = scores.emplace_back();
    score.at = options.levels[i];
    score.problems.assign(
        std::make_move_iterator(problems.begin() + static_cast<int64_t>(begin)),
        std::make_move_iterator(problems.begin() + static_cast<int64_t>(ends[i])));
    score.score = summarize(score.problems, options.ks);
    begin = ends[i];
  }
  return scores;
}

std::vector<TaskText> environment_texts(const EnvironmentEvalOptions& options) {
  std::vector<TaskText> texts;
  for (const EnvironmentLevel& at : options.levels) {
    for (const Task& task : draw_tasks(at, options)) {
      texts.push_back({options.form(task.prompt), solution(task)});
    }
  }
  return texts;
}

Score overall(std::span<const EnvironmentScore> scores) {
  std::vector<Problem> all;
  std::vector<int64_t> ks;
  for (const EnvironmentScore& s : scores) {
    all.insert(all.end(), s.problems.begin(), s.problems.end());
  }
  if (!scores.empty()) {
    for (const auto& [k, pass] : scores[0].score.pass_at) ks.push_back(k);
  }
  return summarize(all, ks);
}

}  // namespace tephra
