// SPDX-License-Identifier: Apache-2.0
// tephra doctor: what this machine offers, and how fast it is at best.
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/machine_file.h"
#include "tephra/cli/output.h"
#include "tephra/device/fma_peak.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/gpu/usable.h"
#include "tephra/device/machine.h"
#include "tephra/hub/web_client.h"

namespace tephra {
namespace {

constexpr double kMeasureSeconds = 3;

struct Options {
  bool measure = false;
  bool no_measure = false;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--measure", o.measure, "measure the ceilings again, about five seconds");
  flags.add("--no-measure", o.no_measure, "do not measure; show what an earlier run kept, if any");
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra doctor");
  flags.example("tephra doctor --measure --threads 1");
  flags.example("tephra doctor --no-measure --json");
}

struct Findings {
  Machine machine;
  int threads;
  std::optional<Ceilings> ceilings;
  std::string source;                              // of the ceilings
  std::vector<std::optional<gpu::Ceilings>> gpus;  // measured now, of those that can be used
};

Findings examine(const Options& o) {
  require(!(o.measure && o.no_measure), "--measure and --no-measure exclude each other");
  Findings f{this_machine(), num_threads(), {}, "not measured", {}};
  if (!o.measure) f.ceilings = load_ceilings(f.machine.cpu, f.threads);
  if (f.ceilings) f.source = "kept from an earlier run";
  if (!f.ceilings && !o.no_measure) {
    log_info("measuring this machine's ceilings, some seconds");
    f.ceilings = measure_ceilings(kMeasureSeconds);
    f.source = "measured now";
    for (int i = 0; i < static_cast<int>(gpu::status().devices.size()); ++i) {
      f.gpus.emplace_back();
      if (!gpu::why_unusable(i).empty()) continue;
      f.gpus.back() = gpu::measure_ceilings({Device::Kind::gpu, i});
    }
    if (const auto path = save_ceilings(f.machine.cpu, f.threads, *f.ceilings)) {
      log_info("kept in {}", path->string());
    }
  }
  return f;
}

std::string accelerator_text(const Machine& m) {
  std::string list;
  for (const std::string& name : m.accelerators) list += (list.empty() ? "" : ", ") + name;
  return list;
}

void add_gpus(Table& table, const Machine& m) {
  const gpu::Status& found = gpu::status();
  for (size_t i = 0; i < found.devices.size(); ++i) {
    const gpu::Info& g = found.devices[i];
    table.add({format("gpu:{}", i), format("{}, {}, {}, {} multiprocessors", g.name, g.architecture,
                                           human_bytes(g.memory_bytes), g.multiprocessors)});
    const std::string& why = gpu::why_unusable(static_cast<int>(i));
    if (!why.empty()) table.add({"  not usable", why});
  }
  if (found.devices.empty()) {
    const std::string files = accelerator_text(m);
    table.add({"gpu", found.why_none + (files.empty() ? "" : format("; {} present", files))});
  }
  table.add({"gpu backend", found.driver.empty()
                                ? found.backend
                                : format("{}, driver for {}", found.backend, found.driver)});
}

// Those of the CPU and of `pull`, and the GPU vendor's where there is a GPU to use them.
std::vector<std::pair<std::string, std::string>> libraries() {
  auto list = device_libraries();
  list.emplace_back("libcurl", WebClient::library_version());
  if (gpu::status().devices.empty()) return list;
  for (auto& library : gpu::libraries()) list.push_back(std::move(library));
  return list;
}

Json gpus_to_json(const Machine& m) {
  const gpu::Status& found = gpu::status();
  Json json;
  json["backend"] = found.backend;
  json["driver"] = found.driver.empty() ? Json() : Json(found.driver);
  json["why_none"] = found.why_none.empty() ? Json() : Json(found.why_none);
  json["devices_present"] = Json::Array(m.accelerators.begin(), m.accelerators.end());
  json["devices"] = Json::Array{};
  for (const gpu::Info& g : found.devices) {
    const std::string& why = gpu::why_unusable(static_cast<int>(json["devices"].array().size()));
    Json device;
    device["name"] = g.name;
    device["architecture"] = g.architecture;
    device["memory_bytes"] = g.memory_bytes;
    device["multiprocessors"] = g.multiprocessors;
    device["why_unusable"] = why.empty() ? Json() : Json(why);
    json["devices"].push_back(device);
  }
  return json;
}

Json to_json(const Machine& m) {
  Json cpu, memory;
  cpu["model"] = m.cpu;
  cpu["instruction_sets"] = Json::Array(m.instruction_sets.begin(), m.instruction_sets.end());
  cpu["simd_target"] = simd_target();
  cpu["cores"] = m.cores;
  cpu["cores_online"] = m.cores_online;
  cpu["caches"] = Json::Array{};
  for (const Cache& c : m.caches) {
    Json cache;
    cache["level"] = c.level;
    cache["type"] = c.type;
    cache["bytes"] = c.bytes;
    cache["instances"] = c.instances;
    cpu["caches"].push_back(cache);
  }
  memory["bytes"] = m.memory_bytes;
  memory["available_bytes"] = m.memory_available_bytes;
  memory["limit_bytes"] = m.memory_limit_bytes == 0 ? Json() : Json(m.memory_limit_bytes);
  Json json;
  json["cpu"] = cpu;
  json["memory"] = memory;
  json["gpu"] = gpus_to_json(m);
  return json;
}

Json to_json(const Findings& f) {
  Json json = to_json(f.machine);
  json["version"] = TEPHRA_VERSION;
  json["threads"] = f.threads;
  for (const auto& [name, version] : libraries()) json["libraries"][name] = version;
  const FmaPeak fma = fma_peak(f.threads);
  json["fma_peak"]["gflops"] = fma.gflops();
  json["fma_peak"]["cores"] = fma.cores;
  json["fma_peak"]["flops_per_cycle"] = fma.flops_per_cycle;
  json["fma_peak"]["ghz"] = fma.ghz;
  json["fma_peak"]["clock_measured"] = fma.clock_measured;
  json["ceilings_source"] = f.source;
  json["ceilings"] = f.ceilings ? to_json(*f.ceilings) : Json();
  json["gpu_ceilings"] = Json::Array{};
  for (const std::optional<gpu::Ceilings>& c : f.gpus) {
    Json row;
    if (c) row["gemm_flops_per_second"] = c->gemm_flops_per_second;
    if (c) row["copy_bytes_per_second"] = c->copy_bytes_per_second;
    json["gpu_ceilings"].push_back(row);
  }
  return json;
}

void add_machine(Table& table, const Findings& f) {
  const Machine& m = f.machine;
  std::string sets;
  for (const std::string& name : m.instruction_sets) sets += (sets.empty() ? "" : " ") + name;
  table.add({"cpu", m.cpu});
  table.add({"instruction sets", sets});
  table.add({"kernels run with", simd_target()});
  table.add(
      {"cores", format("{} usable of {} online; {} threads", m.cores, m.cores_online, f.threads)});
  for (const Cache& c : m.caches) {
    if (c.type == "Instruction") continue;
    table.add({format("cache L{}", c.level), format("{} x {}", c.instances, human_bytes(c.bytes))});
  }
  std::string memory = format("{}, {} available", human_bytes(m.memory_bytes),
                              human_bytes(m.memory_available_bytes));
  if (m.memory_limit_bytes > 0) {
    memory += format(", limited to {} by the control group", human_bytes(m.memory_limit_bytes));
  }
  table.add({"memory", memory});
  add_gpus(table, m);
}

std::string fma_text(int threads) {
  const FmaPeak fma = fma_peak(threads);
  if (fma.flops_per_cycle == 0) return fma.text();
  return format("{:.0f} GFLOP/s f32: {}", fma.gflops(), fma.text());
}

void add_ceilings(Table& table, const Findings& f) {
  table.add({"multiply-adds", fma_text(f.threads)});
  table.add({"ceilings", f.source});
  if (!f.ceilings) return;
  const Ceilings& c = *f.ceilings;
  if (c.load_average > 0.5 * f.machine.cores) {
    table.add({"  too low", format("the load average was {:.1f}: measure again on an idle machine",
                                   c.load_average)});
  }
  table.add({"  matrix product", format("{:.0f} GFLOP/s f32 with {} threads, {:.0f} with one",
                                        c.gemm_gflops, f.threads, c.gemm_gflops_per_thread)});
  for (const StreamCeiling& s : c.streams) {
    table.add(
        {format("  memory {}r {}w", s.mix.reads, s.mix.writes), format("{:.1f} GB/s", s.gb_per_s)});
  }
}

void add_gpu_ceilings(Table& table, const Findings& f) {
  for (size_t i = 0; i < f.gpus.size(); ++i) {
    if (!f.gpus[i]) continue;
    table.add({format("  gpu:{} matrix product", i),
               format("{:.0f} TFLOP/s bf16", f.gpus[i]->gemm_flops_per_second / 1e12)});
    table.add({format("  gpu:{} memory 1r 1w", i),
               format("{:.0f} GB/s", f.gpus[i]->copy_bytes_per_second / 1e9)});
  }
}

int run(const Options& o) {
  const Findings f = examine(o);
  if (o.json) {
    print_json(to_json(f));
    return 0;
  }
  Table table({Table::Align::left, Table::Align::left});
  add_machine(table, f);
  for (const auto& [name, version] : libraries()) table.add({name, version});
  table.add({"tephra", TEPHRA_VERSION});
  add_ceilings(table, f);
  add_gpu_ceilings(table, f);
  table.print();
  return 0;
}

}  // namespace

Command doctor_command() {
  return command<Options>("doctor", "what this machine offers, and its measured ceilings", describe,
                          run);
}

}  // namespace tephra
