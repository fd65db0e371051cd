// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/evaluation.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/log.h"

namespace tephra {
namespace {

constexpr int64_t kSequences = 64;  // side by side: memory that training leaves

// What the sources of environments are trained on.
std::string trained_levels(const std::vector<SourceConfig>& sources) {
  std::string list;
  for (const SourceConfig& source : sources) {
    if (source.kind != "environments") continue;
    std::vector<std::string> kinds = source.environments;
    if (kinds.empty()) kinds = {"all"};
    for (const std::string& kind : kinds) {
      list +=
          format("{}{}:{}-{}", list.empty() ? "" : ",", kind, source.min_level, source.max_level);
    }
  }
  return list;
}

// Several sources may have the same tasks.
std::vector<EnvironmentLevel> without_twins(const std::string& list) {
  std::vector<EnvironmentLevel> levels;
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    for (const EnvironmentLevel& at : parse_environments(list.substr(begin, end - begin))) {
      if (std::none_of(levels.begin(), levels.end(), [&](const EnvironmentLevel& known) {
            return known.environment == at.environment && known.level == at.level;
          })) {
        levels.push_back(at);
      }
    }
    begin = end + 1;
  }
  return levels;
}

std::vector<EnvironmentLevel> levels_of(const RunConfig& config) {
  if (config.evaluation.tasks == 0) return {};
  std::string list;
  for (const std::string& item : config.evaluation.environments) {
    list += (list.empty() ? "" : ",") + item;
  }
  if (list.empty()) list = trained_levels(config.data.sources);
  if (list.empty() && config.data.sources.empty()) {
    list = trained_levels({{.name = "environments", .kind = "environments"}});
  }
  require(!list.empty(),
          "evaluation.environments: expected some, as in [\"addition:1-3\"]; no data source has "
          "environments that could stand in");
  return without_twins(list);
}

}  // namespace

Evaluation::Evaluation(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)),
      levels_(levels_of(config)),
      tasks_(config.evaluation.tasks),
      seed_(static_cast<uint64_t>(config.evaluation.seed)) {
  require(levels_.empty() || tokenizer_ != nullptr, "an evaluation needs a tokenizer");
}

std::optional<Evaluation::Result> Evaluation::run(Model& model) const {
  try {
    EnvironmentEvalOptions options;
    options.levels = levels_;
    options.tasks = tasks_;
    options.seed = seed_;
    options.solve.sequences = kSequences;
    const std::vector<EnvironmentScore> scores = evaluate_environments(model, *tokenizer_, options);
    Result result;
    for (const EnvironmentScore& s : scores) {
      result.accuracy[s.at.environment->name][format("{}", s.at.level)] = s.score.accuracy;
    }
    result.mean = overall(scores).accuracy;
    return result;
  } catch (const Error& error) {
    if (error.fault() == Fault::interrupted) throw;
    log_warning("the evaluation failed, and training goes on: {}", error.what());
    return std::nullopt;
  }
}

}  // namespace tephra
