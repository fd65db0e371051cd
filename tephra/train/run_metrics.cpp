// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/run_metrics.h"

#include <cmath>
#include <limits>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/train/metrics.h"

namespace tephra {
namespace {

constexpr int64_t kBlockBytes = int64_t{4} << 20;
constexpr size_t kMaxNotes = 12;
constexpr size_t kMaxScalars = 60;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<double> numbers(const Json& value) {
  std::vector<double> result;
  if (!value.is_array()) return result;
  for (const Json& item : value.array()) result.push_back(item.is_number() ? item.number() : kNan);
  return result;
}

struct Parsed {
  std::optional<Json> row;
  std::string problem;
};

Parsed parse_line(std::string_view line, const std::string& where) {
  try {
    Json row = Json::parse(line, where);
    const Json* step = row.is_object() ? row.find("step") : nullptr;
    if (step && step->is_int()) return {std::move(row), {}};
    return {{}, format("{}: is no line of metrics: it has no integer \"step\"", where)};
  } catch (const Error& error) {
    return {{}, error.what()};
  }
}

std::string phase_name(const Json& value) {
  return value.is_string() ? value.string() : value.dump();
}

}  // namespace

RunMetrics RunMetrics::read(const Path& path) {
  RunMetrics metrics;
  const FileReader file(path);
  const std::string name = path.filename().string();
  Progress progress("reading " + path.string(), file.size(), "B");
  std::string text;  // what is left of a line, then a block
  int64_t line = 1;
  for (int64_t at = 0; at < file.size();) {
    stop_if_interrupted();
    const size_t rest = text.size();
    const int64_t bytes = std::min(kBlockBytes, file.size() - at);
    text.resize(rest + static_cast<size_t>(bytes));
    file.read(at, std::as_writable_bytes(std::span(text)).subspan(rest));
    at += bytes;
    progress.add(bytes);
    const size_t end = text.rfind('\n') + 1;  // 0 when there is none
    metrics.add_lines(std::string_view(text).substr(0, end), line, name);
    line += std::count(text.begin(), text.begin() + static_cast<int64_t>(end), '\n');
    text.erase(0, end);
  }
  if (!text.empty()) {
    const Parsed last = parse_line(text, name);
    if (last.row) metrics.add(*last.row, line);
    if (!last.row) {
      metrics.notes_.push_back(
          format("{}: line {} is cut short and left out: the run is writing it, or was "
                 "killed while it did",
                 name, line));
    }
  }
  if (metrics.complaints_ > static_cast<int64_t>(kMaxNotes)) {
    metrics.notes_.push_back(format("... and {} more such lines",
                                    metrics.complaints_ - static_cast<int64_t>(kMaxNotes)));
  }
  return metrics;
}

void RunMetrics::add_lines(std::string_view text, int64_t first_line, const std::string& where) {
  if (text.empty()) return;
  text.remove_suffix(1);  // the last newline
  const std::vector<std::string_view> lines = split(text, '\n');
  std::vector<Parsed> parsed(lines.size());
  parallel_for(static_cast<int64_t>(lines.size()), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      parsed[at] = parse_line(lines[at], format("{}: line {}", where, first_line + i));
    }
  });
  for (size_t i = 0; i < lines.size(); ++i) {
    if (parsed[i].row) add(*parsed[i].row, first_line + static_cast<int64_t>(i));
    if (!parsed[i].row) complain(parsed[i].problem);
  }
}

void RunMetrics::complain(const std::string& what) {
  if (++complaints_ <= static_cast<int64_t>(kMaxNotes)) notes_.push_back(what);
}

void RunMetrics::add(const Json& row, int64_t line) {
  const int64_t step = row.find("step")->integer();
  if (step <= last_step_) {
    complain(format("{}: line {}: step {} comes after step {}; left out", kMetricsName, line, step,
                    last_step_));
    return;
  }
  last_step_ = step;
  ++steps_;
  add_scalars(row, step, "");
  if (const Json* timing = row.find("timing"); timing && timing->is_object()) {
    add_scalars(*timing, step, "timing.");
    const Json* seconds = timing->find("seconds");
    if (seconds && seconds->is_number()) seconds_ += seconds->number();
    add_scalar("elapsed", step, seconds_);
  }
  if (const Json* value = row.find("entropy")) add_entropy(*value, step);
  if (const Json* value = row.find("load")) add_load(*value);
  if (const Json* value = row.find("eval")) add_evaluation(*value, step);
  if (const Json* value = row.find("phase")) {
    const std::string name = phase_name(*value);
    if (phases_.empty() || phases_.back().name != name) phases_.push_back({step, name});
  }
  const Json* skipped = row.find("skipped");
  if (skipped && skipped->is_bool() && skipped->boolean()) {
    ++num_skipped_;
    if (skipped_.size() < kMarks) skipped_.push_back(step);
  }
}

void RunMetrics::add_scalars(const Json& row, int64_t step, const std::string& prefix) {
  for (const auto& [key, value] : row.object()) {
    if (value.is_number() && key != "step" && key != "phase") {
      add_scalar(prefix + key, step, value.number());
    }
  }
}

void RunMetrics::add_scalar(const std::string& name, int64_t step, double value) {
  if (!std::isfinite(value)) return;
  auto found = scalar_index_.find(name);
  if (found == scalar_index_.end()) {
    if (scalars_.size() == kMaxScalars) return;
    found = scalar_index_.emplace(name, scalars_.size()).first;
    scalars_.emplace_back(name, Series(kPoints));
  }
  scalars_[found->second].second.add(step, ValueRange(value));
  last_[name] = value;
  sums_[name] += value;
}

void RunMetrics::add_entropy(const Json& value, int64_t step) {
  std::vector<double> layers = numbers(value);
  if (layers.empty()) return;
  const auto& columns = entropy_.all();
  if (!columns.empty() && columns[0].content.sums.size() != layers.size()) return;
  entropy_.add(step, VectorSums{std::move(layers)});
}

void RunMetrics::add_load(const Json& value) {
  if (!value.is_array()) return;
  std::vector<std::vector<double>> layers;
  for (const Json& layer : value.array()) {
    std::vector<double> experts = numbers(layer);
    double sum = 0;
    for (double share : experts) sum += share;
    for (double& share : experts) {
      share *= sum > 0 ? static_cast<double>(experts.size()) / sum : 0;
    }
    layers.push_back(std::move(experts));
  }
  loads_.push_back(std::move(layers));
  if (loads_.size() > kLoads) loads_.pop_front();
}

std::vector<std::vector<double>> RunMetrics::load() const {
  if (loads_.empty()) return {};
  std::vector<std::vector<double>> mean = loads_.back();
  for (size_t layer = 0; layer < mean.size(); ++layer) {
    for (size_t expert = 0; expert < mean[layer].size(); ++expert) {
      double sum = 0;
      int64_t count = 0;
      for (const auto& load : loads_) {
        if (layer >= load.size() || expert >= load[layer].size()) continue;
        sum += load[layer][expert];
        ++count;
      }
      mean[layer][expert] = sum / static_cast<double>(count);
    }
  }
  return mean;
}

void RunMetrics::add_evaluation(const Json& value, int64_t step) {
  if (!value.is_object()) return;
  Evaluation evaluation{step, {}};
  for (const auto& [kind, levels] : value.object()) {
    auto& by_level = evaluation.accuracy[kind];
    if (levels.is_number()) by_level["all"] = levels.number();
    if (!levels.is_object()) continue;
    for (const auto& [level, accuracy] : levels.object()) {
      if (accuracy.is_number()) by_level[level] = accuracy.number();
    }
  }
  for (const auto& [kind, by_level] : evaluation.accuracy) {
    if (by_level.empty()) continue;
    double sum = 0;
    for (const auto& [level, accuracy] : by_level) sum += accuracy;
    accuracy_.try_emplace(kind, Series(kPoints))
        .first->second.add(step, ValueRange(sum / static_cast<double>(by_level.size())));
  }
  evaluation_ = std::move(evaluation);
}

const RunMetrics::Series* RunMetrics::scalar(const std::string& name) const {
  const auto found = scalar_index_.find(name);
  return found == scalar_index_.end() ? nullptr : &scalars_[found->second].second;
}

double RunMetrics::sum(const std::string& name) const {
  const auto found = sums_.find(name);
  return found == sums_.end() ? 0 : found->second;
}

double RunMetrics::last(const std::string& name) const {
  const auto found = last_.find(name);
  return found == last_.end() ? kNan : found->second;
}

}  // namespace tephra
