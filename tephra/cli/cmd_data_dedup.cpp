// SPDX-License-Identifier: Apache-2.0
// tephra data dedup: removes documents that are nearly the same as another one.
#include "tephra/base/clock.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/flag_fields.h"
#include "tephra/cli/output.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  DedupSettings dedup;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  FlagFields fields(flags);
  o.dedup.fields(fields);
  flags.example("tephra data dedup filtered --out unique");
  flags.example(
      "tephra data dedup web=crawl books=books --out unique --rank books,web --keep longest");
  flags.example("tephra data dedup unique --unit substring --out without-repeats");
  flags.example("tephra data dedup crawl-1 --out unique-1 --save-index seen");
  flags.example("tephra data dedup crawl-2 --out unique-2 --against-index seen --save-index seen");
  flags.example(
      "tephra data dedup new=crawl-2 old=unique/documents --reference old --out new-only");
}

void print_documents(const Options& o, const Tally& tally, double seconds) {
  print("{}: {} of {} documents kept, {} removed ({}); {:.1f} MB/s", o.corpus.out,
        human_count(tally["kept"]), human_count(tally[counted::kDocuments]),
        human_count(tally["removed"] + tally["known"]), human_bytes(tally["removed_bytes"]),
        static_cast<double>(tally[counted::kTextBytes]) / 1e6 / std::max(seconds, 1e-9));
  print(
      "{} clusters with {} documents; {} comparisons, {} below the similarity; {} short documents",
      human_count(tally["clusters"]), human_count(tally["members"]), human_count(tally["compared"]),
      human_count(tally["refused"]), human_count(tally["short_documents"]));
  if (o.dedup.against_index) {
    print("{} of those removed resemble a document of the index, by {} comparisons",
          human_count(tally["known"]), human_count(tally["compared_with_index"]));
  }
}

int run(const Options& o) {
  o.dedup.check();
  const CorpusContext context = corpus_context(o.corpus);
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
  if (o.dedup.of_documents()) check_dedup(files, o.dedup.options(context));
  const StageSettings stage = stage_settings(o.corpus);
  StageRun run;
  const double seconds = seconds_of([&] { run = o.dedup.run(files, context, stage); });
  tell_troubles(run, o.corpus);
  const Tally& tally = run.tally;
  if (told_as_json(run, o.corpus, seconds)) return 0;
  if (o.dedup.of_documents()) {
    print_documents(o, tally, seconds);
  } else {
    print("{}: {} {}s removed ({}), {} of {} documents kept", o.corpus.out,
          human_count(tally["removed_pieces"]), o.dedup.unit, human_bytes(tally["removed_bytes"]),
          human_count(tally["kept"]), human_count(tally[counted::kDocuments]));
  }
  return 0;
}

}  // namespace

Command data_dedup_command() {
  return command<Options>("data dedup", "remove documents that are nearly the same as another",
                          describe, run);
}

}  // namespace tephra
