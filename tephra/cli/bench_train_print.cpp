// SPDX-License-Identifier: Apache-2.0
// What `tephra bench train` shows of its measurements.
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_train.h"
#include "tephra/cli/output.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

using enum Table::Align;

std::string percent(double share) { return format("{:.1f} %", 100 * share); }
std::string milliseconds(double seconds) { return format("{:.1f}", 1e3 * seconds); }

double muon_share(const GrowthPoint& p) {
  return p.muon_seconds / (p.step_seconds + p.optimizer_seconds);
}
double newton_schulz_share(const GrowthPoint& p) {
  return p.newton_schulz_flops / (p.newton_schulz_flops + p.model_flops);
}

void print_step(const TrainBench& b) {
  print("forward + backward of {} tokens in documents of {}: {:.0f} ms, {} tokens/s",
        human_count(b.tokens), human_count(b.context), 1e3 * b.step.seconds,
        human_count(static_cast<int64_t>(b.work.tokens / b.step.seconds)));
  const Mfu m = mfu(b.work, b.step.seconds, b.peaks);
  const bool known = b.peaks.datasheet > 0;
  Table table({left, right, right, right, right});
  table.add({"FLOPs of a step", "GFLOP", "GFLOP/s", format("of sgemm's {:.0f}", b.peaks.gemm / 1e9),
             known ? format("of the cores' {:.0f}", b.peaks.datasheet / 1e9) : "of the cores'"});
  const auto add = [&](const char* name, double flops, double measured, double datasheet) {
    table.add({name, format("{:.1f}", flops / 1e9), format("{:.1f}", flops / b.step.seconds / 1e9),
               percent(measured), known ? percent(datasheet) : ""});
  };
  add("the model's products, head and causal attention", b.work.model_flops, m.model,
      m.model_datasheet);
  add("6 x active parameters", b.work.six_n_flops, m.six_n, m.six_n_datasheet);
  table.print();
  print("the cores: {}", b.peaks.datasheet_text);
}

void print_kernels(const TrainBench& b) {
  Table table({left, right, right, right});
  table.add({"where it goes", "forward ms", "backward ms", "share"});
  double sum = 0;
  for (const KernelShare& k : b.kernels) {
    sum += k.seconds();
    table.add({k.name, milliseconds(k.forward_seconds), milliseconds(k.backward_seconds),
               percent(k.seconds() / b.kernels_pass_seconds)});
  }
  const double rest = b.kernels_pass_seconds - sum;
  table.add({"between kernels", milliseconds(rest), "", percent(rest / b.kernels_pass_seconds)});
  table.print();
}

void print_optimizer(const TrainBench& b) {
  const StepReport& r = b.optimizer;
  print("the optimizer: {} ms: Muon {}, AdamW {}, the gradient's norm {}",
        milliseconds(r.seconds()), milliseconds(r.muon_seconds), milliseconds(r.adamw_seconds),
        milliseconds(r.norm_seconds));
  if (b.newton_schulz.empty()) return;
  Table table({left, right, right, right, right});
  table.add({"Newton-Schulz", "matrices", "ms of all", "GFLOP/s", "of sgemm"});
  for (const NewtonSchulzShare& s : b.newton_schulz) {
    const double all =
        s.row.seconds * static_cast<double>(s.matrices) / static_cast<double>(s.measured);
    table.add({format("{} x {}", s.rows, s.cols), format("{}", s.matrices), milliseconds(all),
               format("{:.1f}", s.row.flops / s.row.seconds / 1e9), percent(s.row.share)});
  }
  table.add({"together", "", "", "", percent(b.newton_schulz_share())});
  table.print();
}

void print_growth(const Growth& g, const TrainBench& b) {
  const bool tokens = g.tokens == 0;
  Table table({right, right, right, right, right, right, right, right});
  table.add({g.of, "parameters", "forward + backward ms", "ratio", "of sgemm", "optimizer ms",
             "Muon's share", "its FLOPs'"});
  const GrowthPoint* before = nullptr;
  for (const GrowthPoint& p : g.points) {
    table.add({format("{}", p.size), human_count(p.parameters), milliseconds(p.step_seconds),
               before ? format("x {:.2f}", p.step_seconds / before->step_seconds) : "",
               percent(p.model_flops / p.step_seconds / b.peaks.gemm),
               milliseconds(p.optimizer_seconds), percent(muon_share(p)),
               percent(newton_schulz_share(p))});
    before = &p;
  }
  print("");
  table.print();
  print("{}: forward + backward grow as {}^{:.2f}, the optimizer as {}^{:.2f}{}", g.of, g.of,
        g.exponent(&GrowthPoint::step_seconds), g.of, g.exponent(&GrowthPoint::optimizer_seconds),
        tokens ? "" : format(" (steps of {} tokens)", human_count(g.tokens)));
}

Json to_json(const Growth& g) {
  Json json;
  json["of"] = g.of;
  if (g.tokens > 0) json["tokens"] = g.tokens;
  json["points"] = Json::Array{};
  for (const GrowthPoint& p : g.points) {
    Json point;
    point["size"] = p.size;
    point["parameters"] = p.parameters;
    point["forward_backward_seconds"] = p.step_seconds;
    point["optimizer_seconds"] = p.optimizer_seconds;
    point["muon_seconds"] = p.muon_seconds;
    point["model_flops"] = p.model_flops;
    point["newton_schulz_flops"] = p.newton_schulz_flops;
    point["muon_share_of_step"] = muon_share(p);
    json["points"].push_back(point);
  }
  json["exponent_forward_backward"] = g.exponent(&GrowthPoint::step_seconds);
  json["exponent_optimizer"] = g.exponent(&GrowthPoint::optimizer_seconds);
  return json;
}

Json step_json(const TrainBench& b) {
  const Mfu m = mfu(b.work, b.step.seconds, b.peaks);
  Json json;
  json["seconds"] = b.step.seconds;
  json["passes"] = b.step.passes;
  json["tokens_per_second"] = b.work.tokens / b.step.seconds;
  json["peak_bytes"] = b.step.peak_bytes;
  json["model_flops"] = b.work.model_flops;
  json["six_n_flops"] = b.work.six_n_flops;
  json["mfu_model"] = m.model;
  json["mfu_6n"] = m.six_n;
  json["mfu_model_datasheet"] = m.model_datasheet;
  json["mfu_6n_datasheet"] = m.six_n_datasheet;
  return json;
}

Json kernels_json(const TrainBench& b) {
  Json json(Json::Array{});
  for (const KernelShare& k : b.kernels) {
    Json entry;
    entry["name"] = k.name;
    entry["forward_seconds"] = k.forward_seconds;
    entry["backward_seconds"] = k.backward_seconds;
    json.push_back(entry);
  }
  return json;
}

Json optimizer_json(const TrainBench& b) {
  Json json;
  json["seconds"] = b.optimizer.seconds();
  json["muon_seconds"] = b.optimizer.muon_seconds;
  json["adamw_seconds"] = b.optimizer.adamw_seconds;
  json["norm_seconds"] = b.optimizer.norm_seconds;
  json["newton_schulz_flops"] = b.newton_schulz_flops.needed;
  json["newton_schulz_share"] = b.newton_schulz_share();
  json["newton_schulz"] = Json::Array{};
  for (const NewtonSchulzShare& s : b.newton_schulz) {
    Json entry;
    entry["rows"] = s.rows;
    entry["cols"] = s.cols;
    entry["matrices"] = s.matrices;
    entry["measured"] = s.measured;
    entry["seconds"] = s.row.seconds;
    entry["gflops"] = s.row.flops / s.row.seconds / 1e9;
    entry["share"] = s.row.share;
    json["newton_schulz"].push_back(entry);
  }
  return json;
}

}  // namespace

void print(const TrainBench& b, const TrainBenchOptions& o) {
  print(
      "{}: {} parameters, {} active without the embedding; {}, {} threads, {}, load average {:.1f}",
      o.config.name, human_count(b.figures.parameters),
      human_count(b.figures.active_without_embedding), o.config.model.dtype, num_threads(),
      this_machine().cpu, b.load_average);
  print("");
  print_step(b);
  print("");
  print_kernels(b);
  print("");
  print_optimizer(b);
  for (const Growth& g : b.growths) print_growth(g, b);
}

Json to_json(const TrainBench& b, const TrainBenchOptions& o) {
  Json json;
  json["version"] = TEPHRA_VERSION;
  json["machine"]["cpu"] = this_machine().cpu;
  json["machine"]["simd_target"] = simd_target();
  json["threads"] = num_threads();
  json["load_average"] = b.load_average;
  json["config"] = o.config.name;
  json["dtype"] = o.config.model.dtype;
  json["parameters"] = b.figures.parameters;
  json["active_without_embedding"] = b.figures.active_without_embedding;
  json["tokens"] = b.tokens;
  json["context"] = b.context;
  json["gemm_gflops"] = b.peaks.gemm / 1e9;
  json["fma_gflops"] = b.peaks.datasheet / 1e9;
  json["forward_backward"] = step_json(b);
  json["kernels"] = kernels_json(b);
  json["optimizer"] = optimizer_json(b);
  json["growth"] = Json::Array{};
  for (const Growth& g : b.growths) json["growth"].push_back(to_json(g));
  return json;
}

}  // namespace tephra
