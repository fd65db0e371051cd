// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_tokenizer.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/sample_text.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

constexpr size_t kSampleBytes = 8'000'000;

struct Options {
  std::string tokenizer;
  std::optional<std::string> text;
  TokenizerBenchOptions bench;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--tokenizer DIR", o.tokenizer, "folder with a tokenizer.json, or the file itself")
      .required();
  flags.add("--text FILE", o.text, "text to encode; without it, made text that looks like English");
  flags.add("--seconds", o.bench.seconds, "of passes for each row; the best one counts")
      .range(0, 600);
  flags.add("--line-mb", o.bench.line_mb, "size of the long line in MB; 0 leaves it out")
      .range(0, 4000);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra bench tokenizer --tokenizer tests/golden/tokenizer-byte-level");
  flags.example("tephra bench tokenizer --tokenizer DIR --text FILE --json");
}

Json json_of(const TokenizerBenchRow& row) {
  Json out;
  out["what"] = row.what;
  out["bytes"] = row.bytes;
  out["documents"] = row.documents;
  out["tokens"] = row.tokens;
  out["threads"] = row.threads;
  out["mb_per_s"] = row.mb_per_s;
  if (row.cpu_mb_per_s > 0) out["cpu_mb_per_s"] = row.cpu_mb_per_s;
  return out;
}

void print_rows(const std::vector<TokenizerBenchRow>& rows) {
  using enum Table::Align;
  Table table({left, right, right, right, right, right});
  table.add({"", "threads", "MB", "bytes/token", "MB/s", "MB/s of CPU time"});
  for (const TokenizerBenchRow& row : rows) {
    table.add({row.what, format("{}", row.threads),
               format("{:.1f}", 1e-6 * static_cast<double>(row.bytes)),
               format("{:.2f}", static_cast<double>(row.bytes) /
                                    static_cast<double>(std::max<int64_t>(1, row.tokens))),
               format("{:.1f}", row.mb_per_s),
               row.cpu_mb_per_s > 0 ? format("{:.1f}", row.cpu_mb_per_s) : ""});
  }
  table.print();
}

int run(const Options& o) {
  const Tokenizer tokenizer = Tokenizer::load(o.tokenizer);
  const std::string text =
      o.text ? read_file(*o.text, int64_t{1} << 40) : sample_text(kSampleBytes, 1);
  require(!text.empty(), "--text: expected text, {} is empty", o.text.value_or(""));
  const std::vector<TokenizerBenchRow> rows = bench_tokenizer(tokenizer, text, o.bench);
  if (o.json) {
    Json list = Json::Array{};
    for (const TokenizerBenchRow& row : rows) list.push_back(json_of(row));
    Json out;
    out["tokenizer"] = o.tokenizer;
    out["vocab_size"] = tokenizer.vocab_size();
    out["text"] = o.text.value_or("made, like English");
    out["cpu"] = this_machine().cpu;
    out["rows"] = list;
    print_json(out);
    return 0;
  }
  print("{} tokens, {}, {}; best pass within {} s, each with an empty cache; MB are 10^6 bytes",
        human_count(tokenizer.vocab_size()), o.text.value_or("made text"), this_machine().cpu,
        o.bench.seconds);
  print_rows(rows);
  return 0;
}

}  // namespace

Command bench_tokenizer_command() {
  return command<Options>("bench tokenizer", "how fast a tokenizer encodes and decodes", describe,
                          run);
}

}  // namespace tephra
