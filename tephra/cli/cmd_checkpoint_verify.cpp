// SPDX-License-Identifier: Apache-2.0
// tephra checkpoint verify: that a model folder is whole, fits its config and holds finite values;
// that every byte of a training checkpoint is as it was written.
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/training_checkpoint.h"
#include "tephra/models/checkpoint.h"

namespace tephra {
namespace {

struct Options {
  std::string path;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("DIR", o.path, "a model folder, a training checkpoint (step-N), or a run folder")
      .required();
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra checkpoint verify models/zaya1-8b");
  flags.example("tephra checkpoint verify runs/a/checkpoints/step-1000");
  flags.example("tephra checkpoint verify runs/a");
}

Json to_json(const FolderReport& report) {
  Json json;
  json["pass"] = report.problems.empty();
  json["tensors"] = report.tensors;
  json["values"] = report.values;
  json["problems"] = Json::Array(report.problems.begin(), report.problems.end());
  return json;
}

int run(const Options& o) {
  if (holds_training(o.path)) return verify_training(o.path, o.json);
  const FolderReport report = verify_checkpoint(o.path);
  if (o.json) {
    print_json(to_json(report));
  } else if (report.problems.empty()) {
    print("{}: {} tensors, {} values, all in place and finite", o.path, report.tensors,
          human_count(report.values));
  } else {
    print("{}: {} problems", o.path, report.problems.size());
    for (const std::string& problem : report.problems) print("  {}", problem);
  }
  return report.problems.empty() ? 0 : exit_code(Fault::data);
}

}  // namespace

Command checkpoint_verify_command() {
  return command<Options>("checkpoint verify", "that a model folder is whole and its values finite",
                          describe, run);
}

}  // namespace tephra
