// SPDX-License-Identifier: Apache-2.0
// tephra bench data: the loops of the data pipeline against their targets, and against Python.
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
  std::string python;
  double seconds = 1;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--text FILE", o.text,
            ".jsonl of documents; without it, made text that looks like English");
  flags.add("--mb", o.megabytes, "how much of it").range(0.1, 4000);
  flags.add("--python FILE", o.python,
            "tools/data_peers.py: time the loops of Python tools on the same documents, too");
  flags.add("--seconds", o.seconds, "of passes for each row; the best one counts").range(0, 600);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra bench data --python tools/data_peers.py");
  flags.example("tephra bench data --text corpus.jsonl.zst --mb 35 --json");
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

void print_rows(const std::vector<DataBenchRow>& rows) {
  using enum Table::Align;
  Table table({left, right, left, right, right, right});
  table.add({"", "rate", "", "target", "Python", "ratio"});
  for (const DataBenchRow& row : rows) {
    table.add({row.what, format("{:.1f}", row.rate), row.unit,
               row.target ? format("{:.0f}", *row.target) : "",
               row.python ? format("{:.2f}", *row.python) : "",
               row.python ? format("{:.0f}x", row.rate / *row.python) : ""});
  }
  table.print();
}

int run(const Options& o) {
  DataBenchOptions options;
  const auto bytes = static_cast<size_t>(o.megabytes * 1e6);
  options.texts = o.text ? read_texts(*o.text, bytes) : made_texts(bytes);
  options.seconds = o.seconds;
  options.python = o.python;
  require(o.python.empty() || std::filesystem::exists(o.python), "--python: {} does not exist",
          o.python);
  const std::vector<DataBenchRow> rows = bench_data(options);
  if (!o.json) {
    print("{} documents, {}; one thread of {}; best pass within {} s; MB are 10^6 bytes of text",
          human_count(static_cast<int64_t>(options.texts.size())), o.text.value_or("made text"),
          this_machine().cpu, o.seconds);
    print_rows(rows);
    return 0;
  }
  Json list = Json::Array{};
  for (const DataBenchRow& row : rows) {
    Json each;
    each["what"] = row.what;
    each["rate"] = row.rate;
    each["unit"] = row.unit;
    if (row.target) each["target"] = *row.target;
    if (row.python) {
      each["python"] = *row.python;
      each["ratio"] = row.rate / *row.python;
    }
    list.push_back(std::move(each));
  }
  Json out;
  out["cpu"] = this_machine().cpu;
  out["text"] = o.text.value_or("made, like English");
  out["rows"] = std::move(list);
  print_json(out);
  return 0;
}

}  // namespace

Command bench_data_command() {
  return command<Options>("bench data", "speed of the data pipeline's loops", describe, run);
}

}  // namespace tephra
