// SPDX-License-Identifier: Apache-2.0
// tephra checkpoint import and export: a model folder in any published layout, rewritten in the
// native one. Export also takes a training checkpoint or a run folder.
#include "tephra/base/log.h"
#include "tephra/cli/checkpoint_options.h"
#include "tephra/train/checkpoint_export.h"

namespace tephra {
namespace {

struct Options {
  std::string from;
  std::string to;
  WriteFlags write;
};

void describe(Flags& flags, Options& o, const char* from) {
  flags.add("--from DIR", o.from, from).required();
  flags.add("--to DIR", o.to, "folder to write").required();
  o.write.describe(flags, "of every tensor; default: as stored, and bf16 for fp8");
}

void describe_import(Flags& flags, Options& o) {
  describe(flags, o, "model folder to read");
  flags.example("tephra checkpoint import --from ZAYA1-8B-legacy --to models/zaya1-8b");
  flags.example("tephra checkpoint import --from ZAYA1-8B-FP8-Experts --to models/zaya1-8b-bf16");
}

void describe_export(Flags& flags, Options& o) {
  describe(flags, o, "model folder, training checkpoint (step-N), or run folder (its newest)");
  flags.example("tephra checkpoint export --from runs/a --to out --dtype bf16");
  flags.example("tephra checkpoint export --from runs/a/checkpoints/step-1000 --to out");
  flags.example("tephra checkpoint export --from models/zaya1-8b --to out --max-shard-size 2GB");
}

int run(const Options& o) {
  convert_checkpoint(o.from, o.to, o.write.options());
  log_info("{}: written", o.to);
  return 0;
}

int run_export(const Options& o) {
  if (!is_training_checkpoint(o.from) && !is_run_folder(o.from)) return run(o);
  const int64_t step = export_training_checkpoint(o.from, o.to, o.write.options());
  log_info("{}: written, as the model was after step {}", o.to, step);
  return 0;
}

}  // namespace

Command checkpoint_import_command() {
  return command<Options>("checkpoint import", "bring a published model into the native layout",
                          describe_import, run);
}

Command checkpoint_export_command() {
  return command<Options>("checkpoint export", "write a model as a Hugging Face folder",
                          describe_export, run_export);
}

}  // namespace tephra
