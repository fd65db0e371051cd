// SPDX-License-Identifier: Apache-2.0
// tephra bench data: the data pipeline against its targets, and against Python and DuckDB.
#include <cstdlib>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_data.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/sample_text.h"
#include "tephra/data/json_line.h"
#include "tephra/data/line_reader.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

constexpr size_t kDocumentBytes = 4096;

struct Options {
  std::optional<std::string> text;
  double megabytes = 16;
  std::string only;
  std::string python, duckdb;
  std::string language_model;
  std::optional<std::string> languages;
  double seconds = 1;
  bool quality = false;
  bool avx2 = false;
  int64_t pairs = 10000;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--text FILE", o.text,
            ".jsonl of documents; without it, made text that looks like English");
  flags.add("--mb", o.megabytes, "how much of it").range(0.1, 4000);
  flags.add("--only WORDS", o.only, "only rows with this in their name: signatures");
  flags.add("--seconds", o.seconds, "of passes for each row; the best one counts").range(0, 600);
  flags.add("--python FILE", o.python,
            "tools/data_peers.py: time the loops of Python tools on the same documents, too");
  flags.add("--duckdb LIB", o.duckdb,
            "libduckdb.so: time its Parquet reader, too (tools/duckdb_peer.py says where it is)");
  flags.add("--language-model FILE", o.language_model,
            "of language ID, such as lid.176.ftz; without it, a made one, for speed only");
  flags.add("--languages FILE", o.languages,
            ".jsonl of documents in many languages, for how often a sample tells the same");
  flags.add("--avx2", o.avx2, "with vectors of AVX2 only, as on machines without AVX-512");
  flags.add("--quality", o.quality,
            "instead of speed: recall, precision and traps of deduplication at full size");
  flags.add("--pairs", o.pairs, "of --quality: planted ones at each similarity, and documents")
      .range(100, 1e7);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra bench data --python tools/data_peers.py");
  flags.example("tephra bench data --text corpus.jsonl.zst --mb 35 --only signatures");
  flags.example("tephra bench data --quality");
}

std::vector<std::string> made_texts(size_t bytes) {
  const std::string text = sample_text(bytes, 1);
  std::vector<std::string> texts;
  for (size_t at = 0; at < text.size();) {
    const size_t end =
        std::min(text.size(), text.find(' ', std::min(text.size(), at + kDocumentBytes)));
    texts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return texts;
}

std::vector<std::string> read_texts(const Path& path, size_t bytes) {
  LineReader lines(path);
  JsonLine parser;
  std::vector<std::string> texts;
  size_t size = 0;
  std::string_view line;
  while (size < bytes && lines.next(line)) {
    texts.emplace_back(parser.string_field(line, "text"));
    size += texts.back().size();
  }
  return texts;
}

std::string digits(double value) {
  return value != 0 && value < 10 ? format("{:.4g}", value) : format("{:.1f}", value);
}

std::string target_of(const DataBenchRow& row) {
  std::string text;
  if (row.target) text = format("{} {:g}", row.at_most ? "<=" : ">=", *row.target);
  if (row.ratio_target) text += format("{}{:g}x", text.empty() ? ">= " : ", ", *row.ratio_target);
  return text;
}

void print_rows(const std::vector<DataBenchRow>& rows) {
  using enum Table::Align;
  Table table({right, left, right, left, right, left, right, left});
  table.add({"target", "", "", "", "peer", "", "", "wanted"});
  for (const DataBenchRow& row : rows) {
    const std::optional<bool> met = row.met();
    table.add({row.number > 0 ? std::to_string(row.number) : "", row.what, digits(row.value),
               row.unit, row.peer ? digits(*row.peer) : "", row.peer_name,
               row.peer ? format("{:.1f}x", *row.ratio()) : "",
               target_of(row) + (met ? *met ? "" : "  MISSED" : "")});
  }
  table.print();
}

Json as_json(const DataBenchRow& row) {
  Json json;
  if (row.number > 0) json["number"] = row.number;
  json["what"] = row.what;
  json["value"] = row.value;
  json["unit"] = row.unit;
  if (row.target) json["target"] = *row.target;
  if (row.target && row.at_most) json["at_most"] = true;
  if (row.peer) {
    json["peer"] = *row.peer;
    json["peer_name"] = row.peer_name;
    json["ratio"] = *row.ratio();
  }
  if (row.ratio_target) json["ratio_target"] = *row.ratio_target;
  if (row.met()) json["met"] = *row.met();
  return json;
}

void require_file(const std::string& flag, const std::string& path) {
  require(path.empty() || std::filesystem::exists(path), "{}: {} does not exist", flag, path);
}

DataBenchOptions bench_options(const Options& o) {
  DataBenchOptions options;
  const auto bytes = static_cast<size_t>(o.megabytes * 1e6);
  options.texts = o.text ? read_texts(*o.text, bytes) : made_texts(bytes);
  if (o.languages) options.languages = read_texts(*o.languages, bytes);
  options.seconds = o.seconds;
  options.only = o.only;
  options.python = o.python;
  options.duckdb = o.duckdb;
  options.language_model = o.language_model;
  if (!o.duckdb.empty()) {
    const Path beside = o.python.empty() ? Path("tools") : Path(o.python).parent_path();
    options.duckdb_script = (beside / "duckdb_peer.py").string();
    require_file("--duckdb", options.duckdb_script);
  }
  for (const auto& [flag, path] : {std::pair("--python", o.python), {"--duckdb", o.duckdb}}) {
    require_file(flag, path);
  }
  return options;
}

int run(const Options& o) {
  std::vector<DataBenchRow> rows;
  std::string subject;
  if (o.avx2) {
    use_avx2_at_most();
    ::setenv("SIMDJSON_FORCE_IMPLEMENTATION", "haswell", 1);
  }
  if (o.quality) {
    rows = bench_data_quality({.pairs = o.pairs, .documents = o.pairs});
    subject = format("{} planted pairs at each similarity", human_count(o.pairs));
  } else {
    const DataBenchOptions options = bench_options(o);
    rows = bench_data(options);
    subject = format("{} documents of {}; one thread; best pass within {} s; MB are 10^6 bytes",
                     human_count(static_cast<int64_t>(options.texts.size())),
                     o.text.value_or("made text"), o.seconds);
    if (o.avx2) subject += "; AVX2 only";
  }
  if (!o.json) {
    print("{}; {}", subject, this_machine().cpu);
    print_rows(rows);
    return 0;
  }
  Json list = Json::Array{};
  for (const DataBenchRow& row : rows) list.push_back(as_json(row));
  Json out;
  out["cpu"] = this_machine().cpu;
  out["subject"] = subject;
  out["rows"] = std::move(list);
  print_json(out);
  return 0;
}

}  // namespace

Command bench_data_command() {
  return command<Options>("bench data", "speed and exactness of the data pipeline", describe, run);
}

}  // namespace tephra
