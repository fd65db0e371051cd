// SPDX-License-Identifier: Apache-2.0
// tephra bench memory: recall on questions about time, and the time a question takes.
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/temporary_folder.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_memory.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

struct Options {
  std::optional<std::string> data;
  int64_t k = 10;
  int64_t misses = 0;
  bool plain = false;
  int64_t turns = 0;
  int64_t repeats = 20;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--data DIR", o.data, "folder with ConversationData and TestData to score");
  flags.add("--k", o.k, "turns of a search by content").range(1, 10'000);
  flags.add("--misses", o.misses, "show this many questions whose recall is below 100")
      .range(0, 1'000'000);
  flags.add("--plain", o.plain, "content search alone, without the grammar of time");
  flags.add("--turns", o.turns, "time questions on a made memory of this many turns")
      .range(0, 100'000'000);
  flags.add("--repeats", o.repeats, "of each timed question").range(1, 10'000);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra bench memory --data temporal-memory --misses 5");
  flags.example("tephra bench memory --turns 1000000");
}

// The mean over all questions of a set, as a row of its own.
std::vector<MemoryScore> with_totals(const std::vector<MemoryScore>& scores) {
  std::vector<MemoryScore> out;
  for (size_t i = 0; i < scores.size();) {
    MemoryScore total{.set = scores[i].set, .type = "all"};
    for (; i < scores.size() && scores[i].set == total.set; ++i) {
      out.push_back(scores[i]);
      total.items += scores[i].items;
      total.recall += scores[i].recall * static_cast<double>(scores[i].questions);
      total.f2 += scores[i].f2 * static_cast<double>(scores[i].questions);
      total.questions += scores[i].questions;
    }
    total.recall /= static_cast<double>(total.questions);
    total.f2 /= static_cast<double>(total.questions);
    out.push_back(total);
  }
  return out;
}

Json to_json(const MemoryQuality& quality) {
  Json scores = Json::Array{};
  for (const MemoryScore& s : with_totals(quality.scores)) {
    Json row;
    row["set"] = s.set;
    row["type"] = s.type;
    row["items"] = s.items;
    row["questions"] = s.questions;
    row["recall"] = s.recall;
    row["f2"] = s.f2;
    scores.push_back(row);
  }
  return scores;
}

Json to_json(const MemorySpeed& speed) {
  Json rows = Json::Array{};
  for (const MemorySpeed::Row& r : speed.rows) {
    Json row;
    row["question"] = r.question;
    row["kept"] = r.kept;
    row["rows"] = r.rows;
    row["median_ms"] = r.median_ms;
    row["worst_ms"] = r.worst_ms;
    rows.push_back(row);
  }
  Json out;
  out["turns"] = speed.turns;
  out["file_bytes"] = speed.file_bytes;
  out["add_seconds"] = speed.add_seconds;
  out["open_seconds"] = speed.open_seconds;
  out["index_seconds"] = speed.index_seconds;
  out["questions"] = rows;
  return out;
}

void print_quality(const MemoryQuality& quality, int64_t misses) {
  using enum Table::Align;
  Table table({left, left, right, right, right, right});
  table.add({"set", "type", "items", "questions", "recall", "F2"});
  for (const MemoryScore& s : with_totals(quality.scores)) {
    table.add({s.set, s.type, human_count(s.items), human_count(s.questions),
               format("{:.2f}", s.recall), format("{:.2f}", s.f2)});
  }
  table.print();
  for (const MemoryMiss& miss : quality.misses) {
    if (misses-- <= 0) break;
    print("\n{} {}, {}: recall {:.1f}, F2 {:.1f}\n  {}", miss.set, miss.type, miss.conversation,
          miss.recall, miss.f2, miss.question);
    for (const std::string& line : miss.explanation) print("    {}", line);
  }
}

void print_speed(const MemorySpeed& speed) {
  print("{} turns, {}: added in {:.2f} s, opened in {:.2f} s, indexed in {:.2f} s",
        human_count(speed.turns), human_bytes(speed.file_bytes), speed.add_seconds,
        speed.open_seconds, speed.index_seconds);
  using enum Table::Align;
  Table table({left, right, right, right, right});
  table.add({"question", "kept", "rows", "median ms", "worst ms"});
  for (const MemorySpeed::Row& r : speed.rows) {
    table.add({r.question, human_count(r.kept), human_count(r.rows), format("{:.2f}", r.median_ms),
               format("{:.2f}", r.worst_ms)});
  }
  table.print();
}

int run(const Options& o) {
  require(o.data || o.turns > 0, "--data DIR, --turns N: expected one of them or both, got none");
  Json out;
  out["cpu"] = this_machine().cpu;
  if (o.data) {
    const MemoryQuality quality = score_memory(*o.data, o.k, o.plain);
    out["scores"] = to_json(quality);
    if (!o.json) print_quality(quality, o.misses);
  }
  if (o.turns > 0) {
    const TemporaryFolder folder("bench-memory");
    const MemorySpeed speed = time_memory(folder.path() / "turns.tmem", o.turns, o.repeats);
    out["speed"] = to_json(speed);
    if (!o.json) print_speed(speed);
  }
  if (o.json) print_json(out);
  return 0;
}

}  // namespace

Command bench_memory_command() {
  return command<Options>("bench memory", "questions about time: how many are answered, how fast",
                          describe, run);
}

}  // namespace tephra
