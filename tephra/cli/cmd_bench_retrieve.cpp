// SPDX-License-Identifier: Apache-2.0
// tephra bench retrieve: how well and how fast passages are found.
#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_retrieve.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/svg_plot.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

struct Options {
  bool quality = false, speed = false;
  std::optional<std::string> multihop, essays, plot;
  RetrieveQualityOptions q;
  RetrieveSpeedOptions s;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--quality", o.quality, "only how well");
  flags.add("--speed", o.speed, "only how fast");
  flags.add("--multihop DIR", o.multihop,
            "questions and passages: NAME.json and NAME_corpus.json, as HippoRAG has them");
  flags.add("--essays FILE", o.essays,
            "filler to hide facts in: text, or {\"text\": ...} a line; without it, made text");
  flags.add("--stories N", o.q.stories, "stories of two and of three facts").range(1, 1e6);
  flags.add("--tasks N", o.q.tasks, "tasks of each other kind").range(1, 1e6);
  flags.add("--lines N", o.q.lines, "sentences of filler").range(100, 1e8);
  flags.add("--fusion", o.q.walk.fusion, "of the question's edges: by rank fusion with BM25")
      .range(0, 1);
  flags.add("--names", o.q.walk.names, "of the walk's steps: over names as nodes").range(0, 1);
  flags.add("--sizes", o.s.sizes, "words of the made corpora that are timed");
  flags.add("--questions N", o.s.questions, "timed on each").range(1, 1e6);
  flags.add("--sqlite-words N", o.s.sqlite_words, "the largest corpus that SQLite gets, too")
      .range(0, 1e10);
  flags.add("--plot FILE", o.plot, "cost against size as an SVG");
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra bench retrieve --quality --multihop DIR --essays FILE");
  flags.example("tephra bench retrieve --speed --sizes 10000,1000000,100000000 --plot cost.svg");
}

void print_quality(const std::vector<RetrieveQualityRow>& rows) {
  using enum Table::Align;
  Table table({left, left, right, right, right, right, right, right});
  table.add({"recall, per cent", "", "questions", "R@5", "R@10", "R@20", "R@50", "R@100"});
  std::string last;
  for (const RetrieveQualityRow& row : rows) {
    std::vector<std::string> cells = {row.set == last ? "" : row.set, row.method,
                                      format("{}", row.questions)};
    for (const double r : row.recall) cells.push_back(format("{:.1f}", r));
    table.add(cells);
    last = row.set;
  }
  table.print();
}

double rate(int64_t words, double seconds) { return 1e-6 * static_cast<double>(words) / seconds; }

void print_speed(const std::vector<RetrieveSpeedRow>& rows) {
  using enum Table::Align;
  Table table({right, right, right, right, right, right, right, right, right, right});
  table.add({"words", "chunks", "index Mwords/s", "append ms", "bytes/word", "query ms", "worst",
             "BM25 ms", "SQLite Mwords/s", "SQLite ms"});
  for (const RetrieveSpeedRow& r : rows) {
    const bool peer = r.sqlite_index_seconds > 0;
    table.add({human_count(r.words), human_count(r.chunks),
               format("{:.2f}", rate(r.words, r.index_seconds)),
               format("{:.1f}", 1e3 * r.append_seconds), format("{:.1f}", r.bytes_a_word),
               format("{:.2f}", r.query_ms), format("{:.2f}", r.query_worst_ms),
               format("{:.2f}", r.bm25_ms),
               peer ? format("{:.2f}", rate(r.words, r.sqlite_index_seconds)) : "-",
               peer ? format("{:.2f}", r.sqlite_ms) : "-"});
  }
  table.print();
}

Json to_json(const RetrieveQualityRow& row) {
  Json json;
  json["set"] = row.set;
  json["method"] = row.method;
  json["questions"] = row.questions;
  for (size_t k = 0; k < kRecallAt.size(); ++k) {
    json["recall"][format("{}", kRecallAt[k])] = row.recall[k];
  }
  return json;
}

Json to_json(const RetrieveSpeedRow& r) {
  Json json;
  json["words"] = r.words;
  json["chunks"] = r.chunks;
  json["index_seconds"] = r.index_seconds;
  json["append_seconds"] = r.append_seconds;
  json["bytes_a_word"] = r.bytes_a_word;
  json["query_ms"] = r.query_ms;
  json["query_worst_ms"] = r.query_worst_ms;
  json["bm25_ms"] = r.bm25_ms;
  if (r.sqlite_index_seconds > 0) {
    json["sqlite_index_seconds"] = r.sqlite_index_seconds;
    json["sqlite_ms"] = r.sqlite_ms;
  }
  return json;
}

std::string cost_plot(const std::vector<RetrieveSpeedRow>& rows) {
  Plot plot{"Cost against size", "words in the corpus", "milliseconds", {}};
  const auto line = [&](const char* name, auto value) {
    PlotLine l{name, {}};
    for (const RetrieveSpeedRow& r : rows) {
      if (value(r) > 0) l.points.emplace_back(static_cast<double>(r.words), value(r));
    }
    if (!l.points.empty()) plot.lines.push_back(l);
  };
  line("index, one thread", [](const auto& r) { return 1e3 * r.index_seconds; });
  line("query, sharpened walk", [](const auto& r) { return r.query_ms; });
  line("query, BM25", [](const auto& r) { return r.bm25_ms; });
  line("SQLite FTS5 index", [](const auto& r) { return 1e3 * r.sqlite_index_seconds; });
  line("SQLite FTS5 query", [](const auto& r) { return r.sqlite_ms; });
  return svg_plot(plot);
}

int run(const Options& o) {
  require(!(o.quality && o.speed), "--quality and --speed exclude each other");
  require(!o.plot || !o.quality, "--plot shows the speed, which --quality leaves out");
  for (const int64_t size : o.s.sizes) require(size >= 100, "--sizes: expected 100 or more words");
  RetrieveQualityOptions q = o.q;
  if (o.multihop) q.multihop = *o.multihop;
  if (o.essays) q.essays = *o.essays;
  std::vector<RetrieveQualityRow> quality;
  std::vector<RetrieveSpeedRow> speed;
  if (!o.speed) quality = bench_retrieve_quality(q);
  if (!o.quality) speed = bench_retrieve_speed(o.s);
  if (o.plot) write_file(*o.plot, cost_plot(speed));
  if (o.json) {
    Json json;
    json["cpu"] = this_machine().cpu;
    json["threads"] = num_threads();
    json["quality"] = Json::Array{};
    json["speed"] = Json::Array{};
    for (const RetrieveQualityRow& row : quality) json["quality"].push_back(to_json(row));
    for (const RetrieveSpeedRow& row : speed) json["speed"].push_back(to_json(row));
    print_json(json);
    return 0;
  }
  if (!quality.empty()) print_quality(quality);
  if (!speed.empty()) {
    print("{}, {} threads; queries: median and worst of {}", this_machine().cpu, num_threads(),
          o.s.questions);
    print_speed(speed);
  }
  return 0;
}

}  // namespace

Command bench_retrieve_command() {
  return command<Options>("bench retrieve", "how well and how fast passages are found", describe,
                          run);
}

}  // namespace tephra
