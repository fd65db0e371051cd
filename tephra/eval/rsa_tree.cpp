// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/rsa_tree.h"

#include <algorithm>
#include <cstdint>

#include "tephra/base/error.h"
#include "tephra/base/table.h"
#include "tephra/base/text.h"
#include "tephra/eval/report.h"

namespace tephra {

extern const std::string_view kRsaTree;  // rsa_tree.html

namespace {

constexpr size_t kShownQuestions = 100;
constexpr std::string_view kMark = "@TREE@";

Json trace_json(const RsaTrace& t) {
  Json parents = Json::Array{};
  for (const int64_t p : t.parents) parents.push_back(p);
  Json json = Json::Object{{"parents", std::move(parents)},
                           {"end", to_text(t.end)},
                           {"prompt_tokens", t.usage.prompt_tokens},
                           {"cached_tokens", t.usage.cached_tokens},
                           {"new_tokens", t.usage.new_tokens},
                           {"text", t.text},
                           {"tail", t.tail}};
  if (t.rested) json["rested"] = true;
  return json;
}

Json graded_json(const RsaTrace& t, const RsaRound& round, size_t i) {
  Json json = Json::Object{{"answer", round.answers[i]}};
  if (!round.right.empty()) json["right"] = static_cast<bool>(round.right[i]);
  Json made = trace_json(t);
  for (auto& [name, value] : made.object()) json[name] = std::move(value);
  return json;
}

Json votes_json(const RsaRound& round) {
  Json votes = Json::Array{};
  for (const Vote& v : round.votes) {
    Json traces = Json::Array{};
    for (const size_t i : v.voters) traces.push_back(static_cast<int64_t>(i));
    Json one = Json::Object{{"answer", v.answer}, {"traces", std::move(traces)}};
    if (!round.right.empty()) one["right"] = static_cast<bool>(round.right[v.voters[0]]);
    votes.push_back(std::move(one));
  }
  return votes;
}

Json round_json(const RsaRound& round, std::span<const RsaTrace> traces, bool whole) {
  Json json = Json::Object{{"tokens", to_json(round.tokens)}, {"votes", votes_json(round)}};
  if (!round.right.empty()) {
    json["mean"] = round.mean;
    json["majority_right"] = round.majority_right;
  }
  if (!whole) return json;
  Json list = Json::Array{};
  for (size_t i = 0; i < traces.size(); ++i) list.push_back(graded_json(traces[i], round, i));
  json["traces"] = std::move(list);
  return json;
}

Json question_json(const RsaQuestion& q, const RsaOutcome& o, bool whole) {
  const size_t chosen = o.chosen();
  Json json = Json::Object{{"id", q.id}, {"question", q.text}};
  if (!q.answer.empty()) json["answer"] = q.answer;
  json["chosen"] = Json::Object{{"trace", static_cast<int64_t>(chosen)},
                                {"answer", o.rounds.back().answers[chosen]},
                                {"text", o.tree.rounds.back()[chosen].text}};
  Json rounds = Json::Array{};
  for (size_t r = 0; r < o.rounds.size(); ++r) {
    rounds.push_back(round_json(o.rounds[r], o.tree.rounds[r], whole));
  }
  json["rounds"] = std::move(rounds);
  return json;
}

Json report_json(const RsaReport& report, bool whole) {
  Json json = Json::Object{
      {"format", "tephra-rsa-tree"}, {"version", 1},
      {"model", report.model},       {"options", rsa_options_json(report.options, report.form)},
      {"seconds", report.seconds},   {"asked", report.asked}};
  RsaTokens tokens;
  bool known = !report.outcomes.empty();
  Json questions = Json::Array{};
  for (size_t i = 0; i < report.outcomes.size(); ++i) {
    tokens += tokens_of(report.outcomes[i].tree);
    known = known && report.questions[i].right;
    questions.push_back(question_json(report.questions[i], report.outcomes[i], whole));
  }
  json["tokens"] = to_json(tokens);
  if (known) json["score"] = to_json(summarize_rsa(report.outcomes));
  json["questions"] = std::move(questions);
  return json;
}

// Without what differs from run to run.
Json unmeasured(const Json& json) {
  if (json.is_array()) {
    Json all = Json::Array{};
    for (const Json& each : json.array()) all.push_back(unmeasured(each));
    return all;
  }
  if (!json.is_object()) return json;
  Json all = Json::Object{};
  for (const auto& [name, value] : json.object()) {
    if (name == "seconds" || name == "cached" || name == "cached_tokens") continue;
    all[name] = unmeasured(value);
  }
  return all;
}

// Within a script element no text may open or close another one.
std::string script_text(const Json& json) {
  std::string text;
  for (const char c : json.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

EndReason end_in(const Fields& fields) {
  const std::string text = fields.string("end");
  for (const EndReason end : {EndReason::eos, EndReason::length, EndReason::stopped}) {
    if (to_text(end) == text) return end;
  }
  throw Error(Fault::data, format("{}: no trace ends by '{}'", fields.where(), clipped(text, 40)));
}

int64_t read_count(const Fields& fields, const char* name) {
  const int64_t count = fields.integer(name);
  require_data(count >= 0, "{}: {}: expected no negative number, got {}", fields.where(), name,
               count);
  return count;
}

std::vector<int64_t> read_parents(const Fields& fields, const RsaOptions& o, int64_t round) {
  std::vector<int64_t> parents;
  for (const Json& parent : fields.array("parents")) {
    require_data(parent.is_int() && parent.integer() >= 0 && parent.integer() < o.traces,
                 "{}: parents: expected numbers of traces", fields.where());
    parents.push_back(parent.integer());
  }
  const int64_t expected = round == 0 ? 0 : o.candidates;
  require_data(std::ssize(parents) == expected, "{}: expected {} parents in round {}, got {}",
               fields.where(), expected, round, parents.size());
  return parents;
}

std::vector<int32_t> read_ids(const Fields& fields, const char* name) {
  std::vector<int32_t> ids;
  for (const Json& id : fields.array(name)) {
    require_data(id.is_int() && id.integer() >= 0 && id.integer() <= INT32_MAX,
                 "{}: {}: expected ids of tokens", fields.where(), name);
    ids.push_back(static_cast<int32_t>(id.integer()));
  }
  return ids;
}

RsaTrace read_trace(const Fields& fields, const RsaOptions& options, int64_t round) {
  RsaTrace t;
  t.parents = read_parents(fields, options, round);
  t.text = fields.string("text");
  t.tail = fields.string("tail");
  if (options.continues()) t.tail_ids = read_ids(fields, "tail_ids");
  t.end = end_in(fields);
  t.rested = fields.boolean_or("rested", false);
  t.usage.prompt_tokens = read_count(fields, "prompt_tokens");
  t.usage.cached_tokens = read_count(fields, "cached_tokens");
  t.usage.new_tokens = read_count(fields, "new_tokens");
  return t;
}

Json interval_json(const Interval& i) { return Json::Array{i.low, i.high}; }

std::string rsa_percent(double share) { return format("{:.1f} %", 100 * share); }

std::string rsa_range(const Interval& i) {
  return format("{:.1f} to {:.1f} %", 100 * i.low, 100 * i.high);
}

}  // namespace

Json rsa_options_json(const RsaOptions& o, const Json& form) {
  Json json = Json::Object{{"n", o.traces},
                           {"c", o.candidates},
                           {"rounds", o.rounds},
                           {"beta", o.trace_tokens},
                           {"tau", o.tail_tokens}};
  put_sampling(json, o.sampling, o.stop);
  if (!form.is_object()) return json;
  for (const auto& [name, value] : form.object()) json[name] = value;
  return json;
}

Json rsa_round_json(std::span<const RsaTrace> traces, const RsaOptions& options) {
  Json list = Json::Array{};
  for (const RsaTrace& t : traces) {
    Json json = trace_json(t);
    if (options.continues()) {  // the next round goes on after these, not after their text
      Json ids = Json::Array{};
      for (const int32_t id : t.tail_ids) ids.push_back(id);
      json["tail_ids"] = std::move(ids);
    }
    list.push_back(std::move(json));
  }
  return Json::Object{{"traces", std::move(list)}};
}

std::vector<RsaTrace> read_rsa_round(const Json& json, const RsaOptions& options, int64_t round,
                                     const std::string& where) {
  const Fields fields(json, where);
  const Json::Array& traces = fields.array("traces");
  require_data(std::ssize(traces) == options.traces, "{}: expected {} traces in round {}, got {}",
               where, options.traces, round, traces.size());
  std::vector<RsaTrace> read;
  for (const Json& trace : traces) read.push_back(read_trace(Fields(trace, where), options, round));
  return read;
}

Json to_json(const RsaTokens& t) {
  return Json::Object{{"prompt", t.prompt}, {"cached", t.cached}, {"generated", t.generated}};
}

Json to_json(const RsaScore& s) {
  Json json = Json::Object{{"questions", s.questions},
                           {"single", s.single},
                           {"single_interval", interval_json(s.single_interval)},
                           {"mean", s.mean.back()},
                           {"mean_interval", interval_json(s.mean_interval)},
                           {"majority", s.majority.back()},
                           {"majority_interval", interval_json(s.majority_interval)}};
  Json rounds = Json::Array{};
  for (size_t r = 0; r < s.mean.size(); ++r) {
    rounds.push_back(Json::Object{
        {"mean", s.mean[r]}, {"majority", s.majority[r]}, {"tokens", to_json(s.tokens[r])}});
  }
  json["rounds"] = std::move(rounds);
  return json;
}

Json rsa_tree_json(const RsaReport& report) { return unmeasured(report_json(report, true)); }
Json rsa_summary_json(const RsaReport& report) { return report_json(report, false); }

std::string rsa_tree_page(const Json& tree, size_t most_bytes) {
  const Json::Array& questions = tree.find("questions")->array();
  Json facts = Json::Object{{"all_questions", static_cast<int64_t>(questions.size())}};
  for (const auto& [name, value] : tree.object()) {
    if (name != "questions") facts[name] = value;
  }
  std::string shown;
  for (size_t i = 0; i < std::min(kShownQuestions, questions.size()); ++i) {
    const std::string next = script_text(questions[i]);
    if (shown.size() + next.size() > most_bytes) break;
    shown += (i > 0 ? "," : "") + next;
  }
  std::string text = script_text(facts);
  text.pop_back();  // the brace, for one field more
  text += ",\"questions\":[" + shown + "]}";
  return std::string(kRsaTree).replace(kRsaTree.find(kMark), kMark.size(), text);
}

std::string rsa_score_table(const RsaScore& s) {
  using Align = TextTable::Align;
  TextTable table({Align::left, Align::right, Align::left, Align::right});
  table.add({"answer by", "accuracy", "95 % interval", "tokens generated, per question"});
  int64_t generated = s.tokens[0].generated;
  const auto per_question = [&] {
    return format("{:.0f}", static_cast<double>(generated) / static_cast<double>(s.questions));
  };
  table.add({"a single trace", rsa_percent(s.single), rsa_range(s.single_interval), "its own"});
  table.add({"majority of the first round", rsa_percent(s.majority_of_first),
             rsa_range(s.first_interval), per_question()});
  for (size_t r = 1; r < s.mean.size(); ++r) {
    generated += s.tokens[r].generated;
    table.add({format("mean of round {}", r), rsa_percent(s.mean[r]),
               rsa_range(wilson(s.mean[r], s.questions)), per_question()});
    table.add({format("majority of round {}", r), rsa_percent(s.majority[r]),
               rsa_range(wilson(s.majority[r], s.questions)), per_question()});
  }
  return table.text();
}

std::string rsa_vote_table(const RsaQuestion& question, const RsaOutcome& outcome) {
  using Align = TextTable::Align;
  const RsaRound& last = outcome.rounds.back();
  if (last.votes.empty()) return "no trace of the last round gave an answer\n";
  constexpr size_t kMost = 8;
  TextTable table({Align::left, Align::right, Align::right, Align::left});
  table.add({"answer", "traces", "share", question.right ? "right" : ""});
  for (size_t i = 0; i < std::min(kMost, last.votes.size()); ++i) {
    const Vote& v = last.votes[i];
    const double share =
        static_cast<double>(v.voters.size()) / static_cast<double>(last.answers.size());
    table.add({clipped(v.answer, 48), format("{}", v.voters.size()), rsa_percent(share),
               !question.right           ? ""
               : last.right[v.voters[0]] ? "yes"
                                         : "no"});
  }
  if (last.votes.size() > kMost) {
    table.add({format("and {} more", last.votes.size() - kMost), "", "", ""});
  }
  return table.text();
}

}  // namespace tephra
