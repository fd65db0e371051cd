// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/report_data.h"

#include <cmath>
#include <cstdlib>
#include <set>

#include "tephra/base/format.h"

namespace tephra {
namespace {

using Series = RunMetrics::Series;

// Five digits are more than a screen shows, and keep the page small.
Json rounded(double value) {
  if (!std::isfinite(value)) return {};
  return std::strtod(format("{:.5g}", value).c_str(), nullptr);
}

// Steps are exact.
Json series_json(const std::string& name, const Series& series) {
  Json json;
  Json::Array step, mean, low, high;
  bool merged = false;
  for (const auto& bucket : series.all()) {
    step.emplace_back(bucket.step());
    mean.push_back(rounded(bucket.content.sum / static_cast<double>(bucket.count)));
    low.push_back(rounded(bucket.content.low));
    high.push_back(rounded(bucket.content.high));
    merged = merged || bucket.count > 1;
  }
  json["name"] = name;
  json["step"] = std::move(step);
  json["mean"] = std::move(mean);
  if (merged) {
    json["low"] = std::move(low);
    json["high"] = std::move(high);
  }
  return json;
}

bool positive(const Series& series) {
  for (const auto& bucket : series.all()) {
    if (bucket.content.low <= 0) return false;
  }
  return true;
}

struct Line {
  std::string key;
  std::string name;
  bool smooth = false;
};

struct Chart {
  std::string title;
  std::vector<Line> lines;
  bool wide = false, log = false, can_log = false, zero = false;
  bool percent = false, clip = false, skips = false;
};

// Collects charts and remembers which keys they show.
class Charts {
 public:
  explicit Charts(const RunMetrics& metrics) : metrics_(metrics) {}

  void add(Json& charts, const Chart& chart) {
    Json json;
    json["series"] = Json::Array{};
    bool loggable = chart.can_log;
    for (const Line& line : chart.lines) {
      const Series* series = metrics_.scalar(line.key);
      shown_.insert(line.key);
      if (!series) continue;
      Json one = series_json(line.name, *series);
      one["smooth"] = line.smooth;
      json["series"].push_back(std::move(one));
      loggable = loggable && positive(*series);
    }
    if (json["series"].array().empty()) return;
    json["title"] = chart.title;
    json["wide"] = chart.wide;
    json["canLog"] = loggable;
    json["log"] = chart.log && loggable;
    json["zero"] = chart.zero;
    json["percent"] = chart.percent;
    json["clip"] = chart.clip;
    json["skips"] = chart.skips;
    charts.push_back(std::move(json));
  }

  // Every number that no chart shows.
  void add_rest(Json& charts) {
    for (const auto& [key, series] : metrics_.scalars()) {
      if (shown_.contains(key)) continue;
      add(charts, {.title = key, .lines = {{key, "value"}}, .can_log = true});
    }
  }

 private:
  const RunMetrics& metrics_;
  std::set<std::string> shown_ = {"tokens", "elapsed", "timing.wall", "timing.first_step"};
};

Json training_charts(Charts& charts) {
  Json json{Json::Array{}};
  charts.add(json, {.title = "Loss",
                    .lines = {{"loss", "training", true}, {"val_loss", "validation"}},
                    .wide = true,
                    .can_log = true,
                    .clip = true,
                    .skips = true});
  charts.add(json,
             {.title = "Learning rate", .lines = {{"lr", "lr"}}, .can_log = true, .zero = true});
  charts.add(json, {.title = "Gradient norm",
                    .lines = {{"grad_norm", "norm", true}},
                    .log = true,
                    .can_log = true,
                    .clip = true,
                    .skips = true});
  charts.add(json, {.title = "Share of the gradient that clipping leaves",
                    .lines = {{"clip_scale", "scale", true}},
                    .zero = true});
  return json;
}

Json speed_charts(Charts& charts) {
  Json json{Json::Array{}};
  charts.add(json, {.title = "Tokens per second",
                    .lines = {{"timing.tokens_per_second", "tokens/s", true}},
                    .zero = true});
  charts.add(json, {.title = "MFU",
                    .lines = {{"timing.mfu_model", "model FLOPs, measured peak", true},
                              {"timing.mfu_6n", "6 x active parameters, measured peak", true},
                              {"timing.mfu_model_datasheet", "model FLOPs, datasheet", true},
                              {"timing.mfu_6n_datasheet", "6 x active, datasheet", true}},
                    .zero = true,
                    .percent = true});
  charts.add(json, {.title = "Seconds of a step",
                    .lines = {{"timing.seconds", "in all", true},
                              {"timing.optimizer", "optimizer", true},
                              {"timing.data_wait", "waiting for data"},
                              {"timing.checkpoint_pause", "checkpoint pause"}},
                    .zero = true,
                    .clip = true});
  charts.add(
      json, {.title = "Memory in bytes", .lines = {{"timing.memory_bytes", "peak"}}, .zero = true});
  return json;
}

Json entropy_map(const RunMetrics& metrics) {
  const auto& columns = metrics.entropy().all();
  if (columns.empty()) return {};
  const size_t layers = columns[0].content.sums.size();
  Json json;
  Json::Array steps, rows(layers, Json(Json::Array{}));
  double low = 0, high = 1;
  for (const auto& column : columns) {
    steps.emplace_back(column.step());
    for (size_t layer = 0; layer < layers; ++layer) {
      const double mean = column.content.sums[layer] / static_cast<double>(column.count);
      rows[layer].push_back(rounded(mean));
      if (!std::isfinite(mean)) continue;
      low = std::min(low, mean);
      high = std::max(high, mean);
    }
  }
  json["title"] = "Entropy of the router's load, by layer";
  json["hint"] = "1: the experts of a layer are used evenly; 0: one is used alone";
  json["step"] = std::move(steps);
  json["rows"] = std::move(rows);
  json["low"] = rounded(low);
  json["high"] = rounded(high);
  return json;
}

Json load_map(const RunMetrics& metrics) {
  const auto load = metrics.load();
  if (load.empty() || load[0].empty()) return {};
  Json json;
  Json::Array rows;
  double high = 2;
  for (const auto& layer : load) {
    Json::Array row;
    for (double share : layer) {
      row.push_back(rounded(share));
      high = std::max(high, share);
    }
    rows.emplace_back(std::move(row));
  }
  json["title"] = "Load of each expert in the last steps";
  json["hint"] = "1 is an even share; layers down, experts across";
  json["wide"] = load[0].size() > 32;
  json["diverging"] = high <= 2;
  json["rows"] = std::move(rows);
  json["low"] = 0;
  json["high"] = rounded(high);
  json["unit"] = "x an even share";
  return json;
}

Json accuracy_chart(const RunMetrics& metrics) {
  Json json;
  json["title"] = "Accuracy by kind of task, mean of its levels";
  json["percent"] = true;
  json["zero"] = true;
  json["whole"] = true;  // up to 100 %
  json["series"] = Json::Array{};
  for (const auto& [kind, series] : metrics.accuracy()) {
    json["series"].push_back(series_json(kind, series));
  }
  return json;
}

void add_group(Json& groups, const char* id, Json charts, Json heats) {
  if (charts.is_null()) charts = Json::Array{};
  if (heats.is_null()) heats = Json::Array{};
  if (charts.array().empty() && heats.array().empty()) return;
  Json group;
  group["id"] = id;
  group["charts"] = std::move(charts);
  group["heats"] = std::move(heats);
  groups.push_back(std::move(group));
}

// Steps, and what a reader may want to see in their place.
Json axis_json(const RunMetrics& metrics) {
  Json json;
  json["step"] = Json::Array{};
  json["tokens"] = Json::Array{};
  json["hours"] = Json::Array{};
  const Series* tokens = metrics.scalar("tokens");
  const Series* elapsed = metrics.scalar("elapsed");
  const bool timed = elapsed && elapsed->all().back().content.high > 0;
  const Series* steps = tokens ? tokens : elapsed;
  if (!steps) return json;
  for (size_t i = 0; i < steps->all().size(); ++i) {
    const auto& bucket = steps->all()[i];
    json["step"].push_back(bucket.step());
    const auto mean = [&](const Series& s) {
      return s.all()[i].content.sum / static_cast<double>(s.all()[i].count);
    };
    if (tokens) json["tokens"].push_back(std::round(mean(*tokens)));
    if (timed && elapsed->all().size() == steps->all().size()) {
      json["hours"].push_back(rounded(mean(*elapsed) / 3600));
    }
  }
  return json;
}

}  // namespace

std::string short_number(double value) {
  const double size = std::fabs(value);
  if (size >= 1e12) return format("{:.3g}T", value / 1e12);
  if (size >= 1e9) return format("{:.3g}G", value / 1e9);
  if (size >= 1e6) return format("{:.3g}M", value / 1e6);
  if (size >= 1e4) return format("{:.3g}k", value / 1e3);
  return format("{:.4g}", value);
}

Json report_data(const RunMetrics& metrics) {
  Json json;
  json["axis"] = axis_json(metrics);
  json["phases"] = Json::Array{};
  for (const RunMetrics::Phase& phase : metrics.phases()) {
    Json one;
    one["step"] = phase.step;
    one["name"] = phase.name;
    json["phases"].push_back(std::move(one));
  }
  json["skipped"] = Json::Array(metrics.skipped().begin(), metrics.skipped().end());
  json["groups"] = Json::Array{};
  Charts charts(metrics);
  add_group(json["groups"], "training", training_charts(charts), {});
  if (!metrics.accuracy().empty()) {
    add_group(json["groups"], "evaluation", Json::Array{accuracy_chart(metrics)}, {});
  }
  Json heats{Json::Array{}};
  for (Json map : {entropy_map(metrics), load_map(metrics)}) {
    if (!map.is_null()) heats.push_back(std::move(map));
  }
  add_group(json["groups"], "router", {}, std::move(heats));
  add_group(json["groups"], "speed", speed_charts(charts), {});
  Json rest{Json::Array{}};
  charts.add_rest(rest);
  add_group(json["groups"], "more", std::move(rest), {});
  return json;
}

}  // namespace tephra
