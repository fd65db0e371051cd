// SPDX-License-Identifier: Apache-2.0
// tephra bench optimizer: Newton-Schulz, the passes over memory, and Muon's part of a step.
#include "tephra/cli/bench_optimizer.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"

namespace tephra {
namespace {

struct Options {
  std::vector<std::string> shapes;
  bool bf16 = false;
  bool only_newton_schulz = false;
  double seconds = 0.5;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--shape COUNTxROWSxCOLS", o.shapes,
            "matrices for Newton-Schulz instead of the usual ones; may be repeated");
  flags.add("--bf16", o.bf16, "Newton-Schulz rounds to bf16 between its products");
  flags.add("--newton-schulz", o.only_newton_schulz, "nothing but Newton-Schulz");
  flags.add("--seconds", o.seconds, "time for each row").range(0, 3600);
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra bench optimizer");
  flags.example("tephra bench optimizer --newton-schulz --shape 16x4096x2048 --seconds 5");
  flags.example("tephra bench optimizer --threads 1 --json");
}

double muon_share(const OptimizerFigures& f) {
  return f.muon_seconds / (f.muon_seconds + f.step_seconds);
}
double flops_share(const OptimizerFigures& f) {
  return f.newton_schulz_flops / (f.newton_schulz_flops + f.step_flops);
}

Json document(const BenchReport& report, const OptimizerFigures& f) {
  Json json = to_json(report);
  json["newton_schulz_full"] = Json::Array{};
  for (const OptimizerFigures::Full& full : f.full) {
    Json row;
    row["bench"] = full.bench;
    row["gflops"] = full.gflops;
    row["share"] = full.share;
    json["newton_schulz_full"].push_back(row);
  }
  if (f.step_seconds > 0) {
    Json& step = json["training_step"];
    step["tokens"] = kBenchModelTokens;
    step["forward_backward_seconds"] = f.step_seconds;
    step["optimizer_seconds_muon"] = f.muon_seconds;
    step["optimizer_seconds_adamw"] = f.adamw_seconds;
    step["muon_share_of_time"] = muon_share(f);
    step["newton_schulz_share_of_flops"] = flops_share(f);
  }
  return json;
}

void print_figures(const OptimizerFigures& f) {
  using enum Table::Align;
  Table table({left, right, right});
  table.add({"newton_schulz, symmetric products counted whole", "GFLOP/s", "share"});
  for (const OptimizerFigures::Full& full : f.full) {
    table.add({full.bench, format("{:.1f}", full.gflops), format("{:.0f} %", full.share * 100)});
  }
  print("");
  table.print();
  if (f.step_seconds == 0) return;
  print("");
  print(
      "a step of {} tokens: forward and backward {:.0f} ms, then the optimizer {:.0f} ms with Muon "
      "({:.0f} % of the step; Newton-Schulz is {:.0f} % of its FLOPs) or {:.0f} ms with AdamW "
      "alone",
      kBenchModelTokens, f.step_seconds * 1e3, f.muon_seconds * 1e3, muon_share(f) * 100,
      flops_share(f) * 100, f.adamw_seconds * 1e3);
}

int run(const Options& o) {
  OptimizerBenchOptions options{.batches = default_matrix_batches(), .bf16 = o.bf16};
  if (!o.shapes.empty()) options.batches.clear();
  for (const std::string& shape : o.shapes) options.batches.push_back(parse_matrix_batch(shape));
  options.steps = !o.only_newton_schulz;
  std::vector<OpSpec> specs = optimizer_bench_specs(options);
  if (o.only_newton_schulz) specs.resize(1);
  const BenchReport report = measure_benches(specs, {.seconds = o.seconds});
  const OptimizerFigures figures = optimizer_figures(report, options);
  if (o.json) {
    print_json(document(report, figures));
  } else {
    print(report);
    print_figures(figures);
  }
  return 0;
}

}  // namespace

Command bench_optimizer_command() {
  return command<Options>("bench optimizer",
                          "the speed of Muon and AdamW, and their part of a training step",
                          describe, run);
}

}  // namespace tephra
