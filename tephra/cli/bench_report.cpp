// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_report.h"

#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/cli/machine_file.h"
#include "tephra/cli/output.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

constexpr double kCeilingSeconds = 1.5;

// 0 means that the spec does not count it.
Json rate(double work, double seconds) { return work > 0 ? Json(work / seconds / 1e9) : Json(); }

Json to_json(const BenchRow& row) {
  Json json;
  json["op"] = row.op;
  json["bench"] = row.bench;
  json["pass"] = row.backward ? "backward" : "forward";
  json["seconds"] = row.seconds;
  json["passes"] = row.passes;
  json["gflops"] = rate(row.flops, row.seconds);
  json["gb_per_s"] = rate(row.bytes, row.seconds);
  json["peer"] = row.peer.empty() ? Json() : Json(row.peer);
  json["peer_seconds"] = row.peer.empty() ? Json() : Json(row.peer_seconds);
  json["share"] = row.peer.empty() ? Json() : Json(row.share);
  json["peak_bytes"] = row.peak_bytes;
  return json;
}

std::string rate_text(double work, double seconds) {
  return work > 0 ? format("{:.1f}", work / seconds / 1e9) : "";
}

void print_rows(const std::vector<BenchRow>& rows) {
  using enum Table::Align;
  Table table({left, left, left, right, right, right, right, left, right, right});
  table.add({"op", "bench", "pass", "ms", "GFLOP/s", "GB/s", "share", "of", "its ms", "peak MiB"});
  for (const BenchRow& row : rows) {
    const bool compared = !row.peer.empty();
    table.add({row.op, row.bench, row.backward ? "backward" : "forward",
               format("{:.3f}", row.seconds * 1e3), rate_text(row.flops, row.seconds),
               rate_text(row.bytes, row.seconds),
               compared ? format("{:.0f} %", row.share * 100) : "", row.peer,
               compared ? format("{:.3f}", row.peer_seconds * 1e3) : "",
               format("{:.1f}", double(row.peak_bytes) / (1 << 20))});
  }
  table.print();
}

void print_ceilings(const Ceilings& before, const Ceilings& after) {
  using enum Table::Align;
  Table table({left, right, right});
  table.add({"ceiling", "before", "after"});
  const auto add = [&](const std::string& name, double a, double b) {
    table.add({name, format("{:.1f}", a), format("{:.1f}", b)});
  };
  add("sgemm, GFLOP/s", before.gemm_gflops, after.gemm_gflops);
  for (size_t i = 0; i < before.streams.size(); ++i) {
    const StreamMix mix = before.streams[i].mix;
    add(format("memory {}r {}w, GB/s", mix.reads, mix.writes), before.streams[i].gb_per_s,
        after.streams[i].gb_per_s);
  }
  table.print();
}

}  // namespace

void warn_when_busy(double load) {
  const int cores = this_machine().cores;
  if (load <= 0.5 * cores) return;
  log_warning("load average {:.1f} on {} cores: other work is running, the numbers are rough", load,
              cores);
}

BenchReport measure_benches(const std::vector<OpSpec>& specs, const BenchOptions& options) {
  warn_when_busy(load_average());
  BenchReport report{.options = options};
  log_info("measuring the ceilings");
  report.before = measure_ceilings(kCeilingSeconds);
  report.rows = bench_ops(specs, options, report.before);
  log_info("measuring the ceilings again");
  report.after = measure_ceilings(kCeilingSeconds);
  return report;
}

Json to_json(const BenchReport& report) {
  Json json;
  json["version"] = TEPHRA_VERSION;
  json["machine"]["cpu"] = this_machine().cpu;
  json["machine"]["simd_target"] = simd_target();
  for (const auto& [name, version] : device_libraries())
    json["machine"]["libraries"][name] = version;
  json["threads"] = num_threads();
  json["dtype"] = "f32";
  json["ceilings_before"] = to_json(report.before);
  json["ceilings_after"] = to_json(report.after);
  json["rows"] = Json::Array{};
  for (const BenchRow& row : report.rows) json["rows"].push_back(to_json(row));
  return json;
}

void print(const BenchReport& report) {
  print("f32, {} threads, {}, load average {:.1f}; best pass within {} s; share of the peer's rate",
        num_threads(), this_machine().cpu, report.before.load_average, report.options.seconds);
  print_rows(report.rows);
  print("");
  print_ceilings(report.before, report.after);
}

}  // namespace tephra
