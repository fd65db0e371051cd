// SPDX-License-Identifier: Apache-2.0
// tephra report: a training run as one HTML page.
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/train/report.h"

namespace tephra {
namespace {

struct Options {
  std::string run_dir;
  std::optional<std::string> out;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("RUN_DIR", o.run_dir, "the folder of a training run, finished or not").required();
  flags.add("--out FILE", o.out, "where to write the page [RUN_DIR/report.html]");
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra report runs/a");
  flags.example("tephra report runs/a --out a.html");
}

int run(const Options& o) {
  const RunReport report = make_report(o.run_dir);
  const Path out = o.out ? Path(*o.out) : Path(o.run_dir) / "report.html";
  write_file(out, report.html);
  for (const std::string& note : report.notes) log_warning("{}", note);
  if (o.json) {
    Json json;
    json["file"] = out.string();
    json["bytes"] = static_cast<int64_t>(report.html.size());
    json["steps"] = report.steps;
    json["notes"] = Json::Array(report.notes.begin(), report.notes.end());
    print_json(json);
  } else {
    print("{}: {} steps, {}", out.string(), human_count(report.steps),
          human_bytes(static_cast<int64_t>(report.html.size())));
  }
  return 0;
}

}  // namespace

Command report_command() {
  return command<Options>("report", "a training run as one HTML page with plots", describe, run);
}

}  // namespace tephra
