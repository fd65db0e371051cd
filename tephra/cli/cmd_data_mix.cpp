// SPDX-License-Identifier: Apache-2.0
// tephra data mix: sources in chosen proportions.
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/flag_fields.h"
#include "tephra/cli/output.h"
#include "tephra/data/mix/mix_corpus.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  MixSettings mix;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  FlagFields fields(flags);
  o.mix.fields(fields);
  flags.example("tephra data mix unique --out mix --weight web=0.7 --weight books=0.3 --size 2GB");
}

int run(const Options& o) {
  const MixOptions options = o.mix.options(corpus_context(o.corpus));
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
  check_mix(files, options);
  const StageSettings stage = stage_settings(o.corpus);
  const StageRun run = mix_corpus(files, options, stage);
  tell_troubles(run, o.corpus);
  if (told_as_json(run, o.corpus)) return 0;
  for (const auto& [name, weight] : options.weights) {
    print("{}: {} documents, {}", name, human_count(run.tally["source." + name + ".kept"]),
          human_bytes(run.tally["source." + name + ".kept_bytes"]));
  }
  return 0;
}

}  // namespace

Command data_mix_command() {
  return command<Options>("data mix", "sources in chosen proportions", describe, run);
}

}  // namespace tephra
