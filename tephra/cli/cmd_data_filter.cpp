// SPDX-License-Identifier: Apache-2.0
// tephra data filter: drops documents by rules on what is measured of their text.
#include "tephra/base/clock.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/flag_fields.h"
#include "tephra/cli/output.h"
#include "tephra/data/filter/filter_corpus.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  FilterSettings filter;
  bool list_rules = false;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  FlagFields fields(flags);
  o.filter.fields(fields);
  flags
      .add("--list-rules", o.list_rules,
           "only say what the rules of all presets measure, and their limits")
      .alone();
  flags.example("tephra data filter web=crawl books=books.jsonl.zst --out filtered");
  flags.example(
      "tephra data filter crawl --out filtered --preset c4,gopher,fineweb --on-error skip");
  flags.example("tephra data filter crawl --out filtered --output-format parquet");
  flags.example("tephra data filter --list-rules");
  flags.example("tephra data filter crawl --out filtered --threshold zyda1.length_min=200");
}

// Before a run: what there is to choose from.
int list_rules(const Options& o) {
  FilterChoice choice;
  choice.presets = filter_preset_names();
  choice.mode = o.filter.mode == "compat" ? FilterMode::compat : FilterMode::fixed;
  choice.thresholds = o.filter.threshold;
  using enum Table::Align;
  Table table({left, left, left});
  table.add({"rule", "drops", "what is measured"});
  Json rows = Json::Array{};
  for (const FilterPreset& preset : make_filters(choice)) {
    for (const FilterRule& rule : preset.rules) {
      const char* side = rule.side == FilterRule::Side::above ? "above" : "below";
      const std::string measures =
          value_meaning(rule.value) + (rule.per_length ? ", for each character" : "");
      table.add({rule.name, format("{} {}", side, rule.limit), measures});
      Json row;
      row["rule"] = rule.name;
      row["drops"] = side;
      row["limit"] = rule.limit;
      row["measures"] = measures;
      rows.push_back(std::move(row));
    }
  }
  if (o.corpus.json) {
    Json json;
    json["rules"] = std::move(rows);
    print_json(json);
  } else {
    table.print();
  }
  return 0;
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
  if (o.list_rules) return list_rules(o);
  const FilterOptions options = o.filter.options(corpus_context(o.corpus));
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
