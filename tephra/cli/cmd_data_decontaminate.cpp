// SPDX-License-Identifier: Apache-2.0
// tephra data decontaminate: removes documents that hold text of benchmarks.
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/flag_fields.h"
#include "tephra/cli/output.h"
#include "tephra/data/decontaminate/decontaminate_corpus.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  DecontaminateSettings decontaminate;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  FlagFields fields(flags);
  o.decontaminate.fields(fields);
  flags.example("tephra data decontaminate unique --out clean --task gsm8k=gsm8k_test.jsonl");
}

int run(const Options& o) {
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
  const TaskIndex index = o.decontaminate.index();
  if (index.skipped() > 0) {
    log_info("{} strings of the tasks have fewer than {} words and are not looked for",
             human_count(index.skipped()), o.decontaminate.least);
  }
  const StageSettings stage = stage_settings(o.corpus);
  const StageRun run = decontaminate_corpus(files, index, o.corpus.text_field, stage);
  tell_troubles(run, o.corpus);
  if (told_as_json(run, o.corpus)) return 0;
  print("{}: {} of {} documents kept", o.corpus.out, human_count(run.tally["kept"]),
        human_count(run.tally[counted::kDocuments]));
  for (const std::string& name : index.names()) {
    print("{}: in {} documents", name, human_count(run.tally["contaminated_by." + name]));
  }
  return 0;
}

}  // namespace

Command data_decontaminate_command() {
  return command<Options>("data decontaminate", "remove documents that hold text of benchmarks",
                          describe, run);
}

}  // namespace tephra
