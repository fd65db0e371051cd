// SPDX-License-Identifier: Apache-2.0
// tephra data dedup: removes documents that are nearly the same as another one.
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/output.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/dedup/line_dedup.h"
#include "tephra/data/dedup/substring_dedup.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  std::string unit = "document";
  int64_t least_chars = 20;
  int64_t least_bytes = 200;
  bool remove_all = false;
  std::string preset = "native";
  std::optional<double> similarity;
  std::string keep = "first";
  std::string rank;
  std::vector<std::string> references;
  std::string score_field = "score";
  double max_loss = 0.9;
  bool across_sources = false;
  bool no_verify = false;
  std::optional<std::string> against_index, save_index;
  std::string index_kind = "full";
  double bloom_rate = 1e-5;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  flags
      .add("--unit", o.unit,
           "what is compared; lines and paragraphs: equal ones, the first stays; substring: any "
           "stretch of text that repeats")
      .choices({"document", "line", "paragraph", "substring"});
  flags.add("--least-chars", o.least_chars, "of --unit line or paragraph: shorter ones always stay")
      .range(1, 1e9);
  flags.add("--least-bytes", o.least_bytes, "of --unit substring: shorter repeats stay")
      .range(16, 1e6);
  flags.add("--remove-all", o.remove_all,
            "of --unit substring: remove every copy, the first one too");
  flags
      .add("--preset", o.preset,
           "native (fast), exact, or signatures as others make them, bit for bit")
      .choices(signature_preset_names());
  flags
      .add("--similarity", o.similarity,
           "Jaccard similarity of shingles from which a document goes; default: the preset's")
      .range(0, 1);
  flags.add("--keep", o.keep, "which document of a cluster stays, after --rank")
      .choices({"first", "longest", "best"});
  flags.add("--rank SOURCES", o.rank, "sources from the best to the worst: books,web");
  flags.add("--reference SOURCE", o.references,
            "only compare with this source, and do not write it; may be repeated");
  flags.add("--across-sources", o.across_sources,
            "remove only what a better source also has, as Zyda-2 does");
  flags.add("--score-field", o.score_field, "of --keep best: the key of a number");
  flags.add("--no-verify", o.no_verify, "remove all of a cluster but one without comparing them");
  flags.add("--against-index DIR", o.against_index,
            "also remove what resembles a document of this index, without its texts");
  flags.add("--save-index DIR", o.save_index,
            "add the documents that are kept to this index; it is made if there is none");
  flags
      .add("--index-kind", o.index_kind,
           "of an index that is made: full names and compares what matches, bloom takes some 60 "
           "bytes a document and only knows that a band was seen")
      .choices({"full", "bloom"});
  flags
      .add("--bloom-rate", o.bloom_rate,
           "of a bloom index that is made: share of new documents it may wrongly call known, for "
           "each time it was added to")
      .range(1e-12, 0.1);
  flags.add("--max-loss", o.max_loss, "stop when a source would lose more than this share")
      .range(0, 1);
  flags.example("tephra data dedup filtered --out unique");
  flags.example(
      "tephra data dedup web=crawl books=books --out unique --rank books,web --keep longest");
  flags.example("tephra data dedup unique --unit substring --out without-repeats");
  flags.example("tephra data dedup crawl-1 --out unique-1 --save-index seen");
  flags.example("tephra data dedup crawl-2 --out unique-2 --against-index seen --save-index seen");
  flags.example(
      "tephra data dedup new=crawl-2 old=unique/documents --reference old --out new-only");
}

int64_t memory_of(const Options& o) {
  const std::string& text = o.corpus.memory;
  const std::optional<int64_t> bytes = parse_bytes(text);
  require(bytes && *bytes > 0, "--memory: expected a size such as 4GiB, got '{}'", text);
  return *bytes;
}

DedupOptions dedup_options(const Options& o) {
  DedupOptions options;
  options.preset = signature_preset(o.preset);
  options.text_field = o.corpus.text_field;
  options.score_field = o.score_field;
  options.keep = o.keep == "longest" ? Keep::longest : o.keep == "best" ? Keep::best : Keep::first;
  if (!o.rank.empty()) {
    for (const std::string_view name : split(o.rank, ',')) options.rank.emplace_back(trim(name));
  }
  options.references = o.references;
  options.across_sources = o.across_sources;
  options.verify = !o.no_verify;
  options.similarity = o.similarity;
  options.max_source_loss = o.max_loss;
  options.memory_bytes = memory_of(o);
  if (o.against_index) options.against_index = *o.against_index;
  if (o.save_index) options.save_index = *o.save_index;
  options.index.kind = o.index_kind == "bloom" ? IndexKind::bloom : IndexKind::full;
  options.index.bloom_rate = o.bloom_rate;
  return options;
}

StageRun dedup_repeats(const Options& o) {
  SubstringDedupOptions options;
  options.text_field = o.corpus.text_field;
  options.least_bytes = o.least_bytes;
  options.remove_all = o.remove_all;
  options.memory_bytes = memory_of(o);
  return dedup_substrings(corpus_files(o.corpus.inputs), options, stage_settings(o.corpus));
}

StageRun dedup_pieces(const Options& o) {
  LineDedupOptions options;
  options.text_field = o.corpus.text_field;
  options.paragraphs = o.unit == "paragraph";
  options.least_chars = o.least_chars;
  options.memory_bytes = memory_of(o);
  return dedup_lines(corpus_files(o.corpus.inputs), options, stage_settings(o.corpus));
}

// Of units below a document.
int run_parts(const Options& o) {
  require(!o.against_index && !o.save_index, "--unit {}: an index is of documents only", o.unit);
  const StageRun run = o.unit == "substring" ? dedup_repeats(o) : dedup_pieces(o);
  tell_troubles(run, o.corpus);
  const Tally& tally = run.tally;
  if (told_as_json(run, o.corpus)) return 0;
  print("{}: {} {}s removed ({}), {} of {} documents kept", o.corpus.out,
        human_count(tally["removed_pieces"]), o.unit, human_bytes(tally["removed_bytes"]),
        human_count(tally["kept"]), human_count(tally[counted::kDocuments]));
  return 0;
}

int run(const Options& o) {
  if (o.unit != "document") return run_parts(o);
  const DedupOptions options = dedup_options(o);
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
  const StageSettings stage = stage_settings(o.corpus);
  StageRun run;
  const double seconds = seconds_of([&] { run = dedup_corpus(files, options, stage); });
  tell_troubles(run, o.corpus);
  const Tally& tally = run.tally;
  if (told_as_json(run, o.corpus, seconds)) return 0;
  print("{}: {} of {} documents kept, {} removed ({}); {:.1f} MB/s", o.corpus.out,
        human_count(tally["kept"]), human_count(tally[counted::kDocuments]),
        human_count(tally["removed"] + tally["known"]), human_bytes(tally["removed_bytes"]),
        static_cast<double>(tally[counted::kTextBytes]) / 1e6 / std::max(seconds, 1e-9));
  print(
      "{} clusters with {} documents; {} comparisons, {} below the similarity; {} short documents",
      human_count(tally["clusters"]), human_count(tally["members"]), human_count(tally["compared"]),
      human_count(tally["refused"]), human_count(tally["short_documents"]));
  if (o.against_index) {
    print("{} of those removed resemble a document of the index, by {} comparisons",
          human_count(tally["known"]), human_count(tally["compared_with_index"]));
  }
  return 0;
}

}  // namespace

Command data_dedup_command() {
  return command<Options>("data dedup", "remove documents that are nearly the same as another",
                          describe, run);
}

}  // namespace tephra
