// SPDX-License-Identifier: Apache-2.0
// tephra bench ops: the speed of every op beside that of its peer.
#include "tephra/cli/bench_report.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"

namespace tephra {
namespace {

struct Options {
  std::vector<std::string> ops;
  BenchOptions bench;
  bool list = false;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--op NAME", o.ops, "only this op; may be repeated");
  flags.add("--seconds", o.bench.seconds, "time for each row").range(0, 3600);
  flags.add("--backward", o.bench.backward, "measure the gradients, too");
  flags.add("--list", o.list, "list the ops and how many cases and benches each has");
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra bench ops --backward");
  flags.example("tephra bench ops --op rms_norm --seconds 2 --threads 1");
  flags.example("tephra bench ops --list");
}

void print_list(const std::vector<OpSpec>& specs, bool json) {
  Table table({Table::Align::left, Table::Align::right, Table::Align::right});
  table.add({"op", "cases", "benches"});
  Json document = Json::Array{};
  for (const OpSpec& spec : specs) {
    table.add({spec.name, format("{}", spec.cases.size()), format("{}", spec.benches.size())});
    Json entry;
    entry["op"] = spec.name;
    entry["cases"] = static_cast<int64_t>(spec.cases.size());
    entry["benches"] = static_cast<int64_t>(spec.benches.size());
    document.push_back(entry);
  }
  if (json) {
    print_json(document);
  } else {
    table.print();
  }
}

int run(const Options& o) {
  const std::vector<OpSpec> specs = bench_specs(o.ops);
  if (o.list) {
    print_list(specs, o.json);
    return 0;
  }
  const BenchReport report = measure_benches(specs, o.bench);
  if (o.json) {
    print_json(to_json(report));
  } else {
    print(report);
  }
  return 0;
}

}  // namespace

Command bench_ops_command() {
  return command<Options>("bench ops", "the speed of every op as a share of what is possible",
                          describe, run);
}

}  // namespace tephra
