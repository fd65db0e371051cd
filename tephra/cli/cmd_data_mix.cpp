// SPDX-License-Identifier: Apache-2.0
// tephra data mix: sources in chosen proportions.
#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/data_options.h"
#include "tephra/cli/output.h"
#include "tephra/data/mix/mix_corpus.h"

namespace tephra {
namespace {

struct Options {
  CorpusOptions corpus;
  std::vector<std::string> weights;
  std::optional<std::string> size;
  std::string preset = "none";
  double max_repeats = 4;
  int64_t seed = 0;
};

void describe(Flags& flags, Options& o) {
  describe_corpus(flags, o.corpus);
  describe_output_format(flags, o.corpus);
  flags.add("--weight SOURCE=NUMBER", o.weights, "share of a source's text; only ratios count");
  flags.add("--preset", o.preset, "zyda2: dclm 4, fwe3 4, zyda 0.16, dolma-cc 0.24")
      .choices({"none", "zyda2"});
  flags.add("--size", o.size,
            "bytes of text that come out, about; default: until a source would be repeated");
  flags.add("--max-repeats", o.max_repeats, "of one source").range(0, 1e6);
  flags.add("--seed", o.seed, "of the choice of documents").range(0, 1e18);
  flags.example("tephra data mix unique --out mix --weight web=0.7 --weight books=0.3 --size 2GB");
}

MixOptions mix_options(const Options& o) {
  MixOptions options;
  options.text_field = o.corpus.text_field;
  if (o.preset == "zyda2") options.weights = zyda2_weights();
  for (const auto& [name, weight] : parse_weights(o.weights)) options.weights[name] = weight;
  require(!options.weights.empty(), "give --weight SOURCE=NUMBER for each source, or --preset");
  if (o.size) {
    const std::optional<int64_t> bytes = parse_bytes(*o.size);
    require(bytes && *bytes > 0, "--size: expected a size such as 2GB, got '{}'", *o.size);
    options.bytes = *bytes;
  }
  options.max_repeats = o.max_repeats;
  options.seed = static_cast<uint64_t>(o.seed);
  return options;
}

int run(const Options& o) {
  const MixOptions options = mix_options(o);
  const std::vector<CorpusFile> files = corpus_files(o.corpus.inputs);
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
