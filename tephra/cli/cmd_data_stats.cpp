// SPDX-License-Identifier: Apache-2.0
// tephra data stats: what is in a corpus and what stages did to it, as a table, JSON and HTML.
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/output.h"
#include "tephra/data/stats/stats_corpus.h"
#include "tephra/data/stats/stats_page.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  std::optional<std::string> tokenizer;
  std::vector<std::string> reports;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  flags.add("--tokenizer PATH", o.tokenizer,
            "also count tokens: tokenizer.json, or a folder with one");
  flags.add("--report DIR", o.reports,
            "a stage's output whose report goes onto the page, too; may be repeated");
  flags.example("tephra data stats crawl --out crawl-stats");
  flags.example(
      "tephra data stats unique --out stats --tokenizer model --report filtered --report unique");
}

StageReport read_report(const Path& folder) {
  const Path path = folder / kReportFile;
  return {folder.filename().string(), Json::parse(read_file(path), path.string())};
}

void print_sources(const Tally& tally, bool tokens) {
  using enum Table::Align;
  Table table({left, right, right, right, right, right});
  table.add({"source", "documents", "bytes", "characters", "words", tokens ? "tokens" : ""});
  constexpr std::string_view kPrefix = "source.", kEnd = ".documents";
  for (const auto& [name, count] : tally.counts()) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kEnd)) continue;
    const std::string base = name.substr(0, name.size() - kEnd.size() + 1);
    const auto cell = [&](const char* kind) { return human_count(tally[base + kind]); };
    table.add({base.substr(kPrefix.size(), base.size() - kPrefix.size() - 1), cell("documents"),
               cell("bytes"), cell("characters"), cell("words"), tokens ? cell("tokens") : ""});
  }
  table.print();
}

int run(const Options& o) {
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
  std::vector<StageReport> reports;
  for (const std::string& folder : o.reports) reports.push_back(read_report(folder));
  std::optional<Tokenizer> tokenizer;
  if (o.tokenizer) tokenizer = Tokenizer::load(*o.tokenizer);
  const StageSettings stage = stage_settings(o.corpus);
  StatsOptions options;
  options.text_field = o.corpus.text_field;
  options.tokenizer = tokenizer ? &*tokenizer : nullptr;
  StageRun run;
  const double seconds = seconds_of([&] { run = stats_corpus(files, options, stage); });
  tell_troubles(run, o.corpus);
  if (run.complete) {
    reports.insert(reports.begin(), read_report(o.corpus.out));
    write_file(Path(o.corpus.out) / "report.html", stats_page(reports));
  }
  if (told_as_json(run, o.corpus, seconds)) return 0;
  print_sources(run.tally, tokenizer.has_value());
  if (run.complete) print("{}/report.html has the lengths, samples and reports", o.corpus.out);
  return 0;
}

}  // namespace

Command data_stats_command() {
  return command<Options>("data stats", "count a corpus and show what stages did to it", describe,
                          run);
}

}  // namespace tephra
