// SPDX-License-Identifier: Apache-2.0
// tephra data filter: drops documents by rules on what is measured of their text.
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/output.h"
#include "tephra/data/filter/filter_corpus.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  std::string presets = "zyda1";
  std::string mode = "fixed";
  std::optional<std::string> word_lists;
  std::vector<std::string> thresholds;
  bool no_values = false;
  bool keep_dropped = false;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  flags.add("--preset NAMES", o.presets, "zyda1, gopher, c4, fineweb, or several: c4,gopher");
  flags
      .add("--mode", o.mode,
           "compat: as the originals compute, quirks included; fixed: as they were meant")
      .choices({"compat", "fixed"});
  flags.add("--word-lists DIR", o.word_lists,
            "of zyda1: profanity.json, sexual.json, zh_pornsignals.json, cursed_substrings.json");
  flags.add("--threshold RULE=NUMBER", o.thresholds,
            "another limit, such as zyda1.length_min=200; may be repeated");
  flags.add("--no-values", o.no_values, "do not write the values of every document");
  flags.add("--keep-dropped", o.keep_dropped, "also write what is dropped, with the rules");
  flags.example("tephra data filter web=crawl books=books.jsonl.zst --out filtered");
  flags.example(
      "tephra data filter crawl --out filtered --preset c4,gopher,fineweb --on-error skip");
  flags.example("tephra data filter crawl --out filtered --output-format parquet");
  flags.example("tephra data filter crawl --out filtered --threshold zyda1.length_min=200");
}

FilterOptions filter_options(const Options& o) {
  FilterOptions options;
  options.choice.presets.clear();
  for (const std::string_view name : split(o.presets, ',')) {
    options.choice.presets.emplace_back(trim(name));
  }
  options.choice.mode = o.mode == "compat" ? FilterMode::compat : FilterMode::fixed;
  if (o.word_lists) {
    require_folder(*o.word_lists, "a folder of word lists");
    options.choice.word_lists = *o.word_lists;
  }
  options.choice.thresholds = o.thresholds;
  options.text_field = o.corpus.text_field;
  options.keep_values = !o.no_values;
  options.keep_dropped = o.keep_dropped;
  return options;
}

void print_rules(const Tally& tally) {
  using enum Table::Align;
  Table table({left, right, right});
  table.add({"rule", "documents", "only by it"});
  constexpr std::string_view kPrefix = "dropped_by.";
  for (const auto& [name, count] : tally.counts()) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string rule = name.substr(kPrefix.size());
    table.add({rule, human_count(count), human_count(tally["dropped_only_by." + rule])});
  }
  table.print();
}

int run(const Options& o) {
  const FilterOptions options = filter_options(o);
  make_filters(options.choice);  // names that do not exist, before anything is touched
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
  const StageSettings stage = stage_settings(o.corpus);
  StageRun run;
  const double seconds = seconds_of([&] { run = filter_corpus(files, options, stage); });
  tell_troubles(run, o.corpus);
  const Tally& tally = run.tally;
  if (told_as_json(run, o.corpus, seconds)) return 0;
  print("{}: {} of {} documents kept, {} of {}; {:.1f} MB/s", o.corpus.out,
        human_count(tally["kept"]), human_count(tally[counted::kDocuments]),
        human_bytes(tally["kept_bytes"]), human_bytes(tally[counted::kTextBytes]),
        static_cast<double>(tally[counted::kTextBytes]) / 1e6 / std::max(seconds, 1e-9));
  if (tally["dropped"] > 0) print_rules(tally);
  return 0;
}

}  // namespace

Command data_filter_command() {
  return command<Options>("data filter", "drop documents by rules on their text", describe, run);
}

}  // namespace tephra
