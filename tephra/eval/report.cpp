// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/report.h"

#include "tephra/base/table.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr auto kLeft = TextTable::Align::left;
constexpr auto kRight = TextTable::Align::right;

std::string percent(double share) { return format("{:.1f} %", 100 * share); }

// Columns that every table of scores ends with; pass@1 is the accuracy and not said twice.
std::vector<std::string> score_heading(const Score& score) {
  std::vector<std::string> cells = {
      "right of", score.samples > 1 ? format("avg@{}", score.samples) : "accuracy",
      "95 % interval"};
  for (const auto& [k, pass] : score.pass_at) {
    if (k > 1) cells.push_back(format("pass@{}", k));
  }
  cells.insert(cells.end(), {"tokens", "cut"});
  return cells;
}

std::vector<std::string> score_cells(const Score& s) {
  std::vector<std::string> cells = {
      format("{}/{}", s.right, s.problems * s.samples), percent(s.accuracy),
      format("{:.1f} to {:.1f}", 100 * s.interval.low, 100 * s.interval.high)};
  for (const auto& [k, pass] : s.pass_at) {
    if (k > 1) cells.push_back(percent(pass));
  }
  cells.insert(cells.end(), {format("{:.1f}", s.mean_tokens), format("{}", s.cut)});
  return cells;
}

TextTable score_table(std::vector<TextTable::Align> columns, std::vector<std::string> heading,
                      const Score& like) {
  for (std::string& cell : score_heading(like)) {
    columns.push_back(kRight);
    heading.push_back(std::move(cell));
  }
  TextTable table(std::move(columns));
  table.add(std::move(heading));
  return table;
}

void add_score(TextTable& table, std::vector<std::string> cells, const Score& score) {
  for (std::string& cell : score_cells(score)) cells.push_back(std::move(cell));
  table.add(std::move(cells));
}

Json attempt_json(const Problem& p, const Attempt& a, Json row) {
  row["prompt"] = p.prompt;
  row["answer"] = p.answer;
  row["completion"] = a.text;
  row["given"] = a.given;
  row["right"] = a.right;
  row["tokens"] = a.tokens;
  row["finish"] = to_text(a.finish);
  return row;
}

template <class F>
void for_wrong_attempts(std::span<const Problem> problems, int64_t most, F&& body) {
  for (const Problem& p : problems) {
    for (const Attempt& a : p.attempts) {
      if (a.right) continue;
      if (most-- <= 0) return;
      body(p, a);
    }
  }
}

// Indented, and without what could command a terminal.
std::string shown(std::string_view text) {
  std::string result;
  for (const std::string_view line : split(trim(text), '\n')) {
    result += "    " + clipped(line, 400) + "\n";
  }
  return result;
}

}  // namespace

std::string environment_table(std::span<const EnvironmentScore> scores) {
  if (scores.empty()) return {};
  TextTable table = score_table({kLeft, kRight}, {"kind", "level"}, scores[0].score);
  for (const EnvironmentScore& s : scores) {
    add_score(table, {s.at.environment->name, format("{}", s.at.level)}, s.score);
  }
  if (scores.size() > 1) add_score(table, {"all", ""}, overall(scores));
  return table.text();
}

std::string question_table(const std::vector<std::pair<std::string, Score>>& files) {
  if (files.empty()) return {};
  TextTable table = score_table({kLeft, kRight}, {"file", "questions"}, files[0].second);
  for (const auto& [name, score] : files) {
    add_score(table, {name, human_count(score.problems)}, score);
  }
  return table.text();
}

std::string perplexity_table(const std::vector<std::pair<std::string, Perplexity>>& files) {
  TextTable table({kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight});
  table.add({"file", "bytes", "tokens", "perplexity", "bits/byte", "bits/token", "first choice",
             "window/stride"});
  for (const auto& [name, p] : files) {
    table.add({name, human_count(p.bytes), human_count(p.tokens), format("{:.3f}", p.per_token()),
               format("{:.4f}", p.bits_per_byte()), format("{:.4f}", p.bits_per_token()),
               percent(p.share_likeliest()), format("{}/{}", p.window, p.stride)});
  }
  return table.text();
}

Json to_json(const Score& s) {
  Json json;
  json["problems"] = s.problems;
  json["samples"] = s.samples;
  json["right"] = s.right;
  json["accuracy"] = s.accuracy;
  json["interval"] = Json::Array{s.interval.low, s.interval.high};
  json["avg_at"][format("{}", s.samples)] = s.accuracy;
  json["pass_at"] = Json::Object{};
  for (const auto& [k, pass] : s.pass_at) json["pass_at"][format("{}", k)] = pass;
  json["mean_tokens"] = s.mean_tokens;
  json["cut"] = s.cut;
  return json;
}

Json to_json(const Perplexity& p) {
  Json json;
  json["bytes"] = p.bytes;
  json["tokens"] = p.tokens;
  json["nats"] = p.nats;
  json["perplexity"] = p.per_token();
  json["bits_per_byte"] = p.bits_per_byte();
  json["bits_per_token"] = p.bits_per_token();
  json["first_choice"] = p.share_likeliest();
  json["windows"] = p.windows;
  json["window"] = p.window;
  json["stride"] = p.stride;
  return json;
}

Json to_json(std::span<const EnvironmentScore> scores) {
  Json rows = Json::Array{};
  for (const EnvironmentScore& s : scores) {
    Json row;
    row["kind"] = s.at.environment->name;
    row["level"] = s.at.level;
    const Json score = to_json(s.score);
    for (const auto& [key, value] : score.object()) row[key] = value;
    rows.push_back(row);
  }
  Json json;
  json["rows"] = rows;
  json["overall"] = to_json(overall(scores));
  return json;
}

void put_sampling(Json& json, const Sampling& sampling, std::span<const std::string> stop) {
  json["temperature"] = sampling.temperature;
  json["top_k"] = sampling.top_k;
  json["top_p"] = sampling.top_p;
  json["min_p"] = sampling.min_p;
  json["seed"] = static_cast<int64_t>(sampling.seed);
  Json texts = Json::Array{};
  for (const std::string& text : stop) texts.push_back(text);
  json["stop"] = std::move(texts);
}

std::string wrong_attempts(std::span<const Problem> problems, int64_t most) {
  std::string text;
  for_wrong_attempts(problems, most, [&](const Problem& p, const Attempt& a) {
    text += format("{}: expected '{}', got '{}' ({} tokens, {})\n{}  wrote:\n{}", p.where,
                   clipped(p.answer, 200), clipped(a.given, 200), a.tokens, to_text(a.finish),
                   shown(p.prompt), shown(a.text));
  });
  return text;
}

Json wrong_attempts_json(std::span<const Problem> problems, int64_t most) {
  Json list = Json::Array{};
  for_wrong_attempts(problems, most, [&](const Problem& p, const Attempt& a) {
    Json row;
    row["where"] = p.where;
    list.push_back(attempt_json(p, a, row));
  });
  return list;
}

std::string attempts_jsonl(std::span<const Problem> problems,
                           const std::function<Json(size_t problem)>& head) {
  std::string text;
  for (size_t i = 0; i < problems.size(); ++i) {
    for (size_t k = 0; k < problems[i].attempts.size(); ++k) {
      Json row = head(i);
      row["sample"] = static_cast<int64_t>(k);
      text += attempt_json(problems[i], problems[i].attempts[k], row).dump() + "\n";
    }
  }
  return text;
}

}  // namespace tephra
