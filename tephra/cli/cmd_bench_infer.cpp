// SPDX-License-Identifier: Apache-2.0
// tephra bench decode and tephra bench prefill.
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/table.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_infer.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/output.h"
#include "tephra/device/machine.h"

namespace tephra {
namespace {

struct Options {
  InferBench bench;
  bool json = false;
};

void describe_shared(Flags& flags, Options& o) {
  flags
      .add("--bits", o.bench.bits,
           "of a preset's weights, drawn quantised as they lie in memory: 8 or 4; 0: bf16")
      .range(0, 8);
  describe_device(flags, o.bench.device, "; a GPU runs in bf16");
  describe_weights(flags, o.bench.weights);
  flags.add("--cold", o.bench.cold,
            "first make the system forget the files, then time the start beside the disk");
  flags.add("--profile", o.bench.profile, "time every kernel, and say where the time goes");
  flags.add("--json", o.json, "one JSON document on stdout");
}

void describe_decode(Flags& flags, Options& o) {
  flags
      .add("--model DIR", o.bench.model,
           "model folder, quantised or not; on a GPU also a preset, with random weights")
      .required();
  flags.add("--tokens", o.bench.tokens, "tokens to time").range(1, 1e6);
  flags.add("--context", o.bench.context, "tokens in the cache before them").range(1, 1e9);
  flags.add("--batch", o.bench.batch, "sequences side by side").range(1, 1024);
  flags
      .add("--ceiling-seconds", o.bench.ceiling_seconds,
           "measuring the memory, spread between the tokens")
      .range(0.01, 60);
  describe_shared(flags, o);
  flags.example("tephra bench decode --model models/8bit");
  flags.example("tephra bench decode --model models/8bit --tokens 64 --profile");
  flags.example("tephra bench decode --model zaya1-8b --device gpu --batch 16 --tokens 256");
  flags.example("tephra bench decode --model zaya1-8b --bits 4 --device gpu");
}

void describe_prefill(Flags& flags, Options& o) {
  o.bench.tokens = 512;
  flags
      .add("--model DIR", o.bench.model,
           "model folder, quantised or not; on a GPU also a preset, with random weights")
      .required();
  flags.add("--tokens", o.bench.tokens, "length of the prompt").range(1, 1e9);
  flags.add("--ceiling-seconds", o.bench.ceiling_seconds, "measuring the machine, before and after")
      .range(0.01, 60);
  describe_shared(flags, o);
  flags.add("--chunk", o.bench.chunk, "tokens of one pass; 0: 256, on a GPU 16384").range(0, 1e9);
  flags.example("tephra bench prefill --model models/8bit --tokens 1024");
  flags.example("tephra bench prefill --model zaya1-8b --device gpu --tokens 16384");
}

Json shared_json(const Options& o, const InferResult& r) {
  Json json;
  json["version"] = TEPHRA_VERSION;
  json["model"] = o.bench.model;
  if (!r.device.empty()) {
    json["machine"]["gpu"] = r.device;
    json["bits"] = o.bench.bits;
    json["memory_bytes"]["weights"] = r.weight_bytes;
    json["memory_bytes"]["peak"] = r.peak_bytes;
  }
  json["machine"]["cpu"] = this_machine().cpu;
  json["machine"]["simd_target"] = simd_target();
  json["machine"]["load_average"] = r.load_average;
  json["threads"] = num_threads();
  json["file_bytes"] = r.file_bytes;
  json["load_seconds"] = r.load_seconds;
  if (r.device.empty()) json["weights_in_memory_bytes"] = r.memory_bytes;
  if (r.pages) {
    json["weight_pages"]["mapped_bytes"] = r.pages->mapped;
    json["weight_pages"]["large_bytes"] = r.pages->large;
  }
  json["first_pass_seconds"] = r.first_pass_seconds;
  if (r.cold) {
    json["cold"]["load_seconds"] = r.cold->load_seconds;
    json["cold"]["first_token_seconds"] = r.cold->first_token_seconds;
    json["cold"]["disk_bytes"] = r.cold->disk_bytes;
    json["cold"]["disk_gb_per_s"] =
        Json::Array{r.cold->disk_before / 1e9, r.cold->disk_after / 1e9};
  }
  return json;
}

void print_shared(const InferResult& r) {
  if (!r.device.empty()) {
    print("{}, bf16; weights ready after {:.2f} s, first pass {:.2f} s", r.device, r.load_seconds,
          r.first_pass_seconds);
    print("memory      {} of weights, {} with all else at most", human_bytes(r.weight_bytes),
          human_bytes(r.peak_bytes));
    return;
  }
  print("{} threads, {}, load average {:.1f}", num_threads(), this_machine().cpu, r.load_average);
  print("load        {:.3f} s for {} of files, {} of weights in memory; first pass {:.2f} s",
        r.load_seconds, human_bytes(r.file_bytes), human_bytes(r.memory_bytes),
        r.first_pass_seconds);
  if (r.pages && r.pages->mapped > 0) {
    print("pages       {} of weights met so far, {:.1f} % of it in pages of 2 MiB",
          human_bytes(r.pages->mapped),
          100 * static_cast<double>(r.pages->large) / static_cast<double>(r.pages->mapped));
  }
  if (!r.cold) return;
  const ColdStart& cold = *r.cold;
  const double speed = static_cast<double>(cold.disk_bytes) / cold.first_token_seconds;
  print(
      "cold start  loaded after {:.2f} s, first token after {:.2f}: {} from disk at {:.2f} GB/s; "
      "plain reads did {:.2f} before and {:.2f} after",
      cold.load_seconds, cold.first_token_seconds, human_bytes(cold.disk_bytes), speed / 1e9,
      cold.disk_before / 1e9, cold.disk_after / 1e9);
}

Json kernels_json(const InferResult& r) {
  Json rows = Json::Array{};
  for (const KernelCost& k : r.kernels) {
    Json row;
    row["name"] = k.name;
    row["seconds"] = k.seconds;
    row["launches"] = k.launches;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json steps_json(const InferResult& r) {
  Json rows = Json::Array{};
  for (const StepReads& step : r.steps) {
    Json row;
    row["gb_per_s"] = step.step / 1e9;
    row["read_ceiling_gb_per_s"] = step.plain / 1e9;
    rows.push_back(std::move(row));
  }
  return rows;
}

void print_kernels(const InferResult& r) {
  if (r.kernels.empty()) return;
  using enum TextTable::Align;
  TextTable table({left, right, right, right});
  table.add({"where it goes", "ms", "launches", "share"});
  double all = 0;
  for (const KernelCost& k : r.kernels) all += k.seconds;
  for (const KernelCost& k : r.kernels) {
    table.add({k.name, format("{:.3f}", k.seconds * 1e3), format("{:.0f}", k.launches),
               format("{:.1f} %", 100 * k.seconds / all)});
  }
  print("\n{}", trim(table.text()));
}

void warn_when_busy(const InferResult& r) {
  const int cores = this_machine().cores;
  if (r.load_average > 0.5 * cores) {
    log_warning("load average {:.1f} on {} cores: other work is running, the numbers are rough",
                r.load_average, cores);
  }
}

int run_decode(const Options& o) {
  require(!o.bench.profile || o.bench.device != "cpu",
          "--profile: only phases of a GPU are timed, got --device cpu");
  const InferResult r = bench_decode(o.bench);
  warn_when_busy(r);
  const auto batch = static_cast<double>(o.bench.batch);
  const double best = r.bytes.all() / r.best_seconds, median = r.bytes.all() / r.median_seconds;
  if (o.json) {
    Json json = shared_json(o, r);
    json["batch"] = o.bench.batch;
    json["context"] = o.bench.context;
    json["tokens_per_s"]["median"] = batch / r.median_seconds;
    json["tokens_per_s"]["best"] = batch / r.best_seconds;
    json["bytes_per_step"]["quantised"] = r.bytes.packed;
    json["bytes_per_step"]["other_weights"] = r.bytes.other;
    json["bytes_per_step"]["cache"] = r.bytes.cache;
    json["gb_per_s"]["median"] = median / 1e9;
    json["gb_per_s"]["best"] = best / 1e9;
    json["read_ceiling_gb_per_s"]["median"] = r.median_ceiling / 1e9;
    json["read_ceiling_gb_per_s"]["best"] = r.ceiling / 1e9;
    json["share"]["median"] = median_share(r);
    json["share"]["best"] = best / r.ceiling;
    if (!r.steps.empty()) json["steps"] = steps_json(r);
    if (r.alone_seconds > 0) {
      json["without_host"]["tokens_per_s"] = batch / r.alone_seconds;
      json["without_host"]["share"] = r.bytes.all() / r.alone_seconds / r.ceiling;
    }
    if (o.bench.profile) json["kernels"] = kernels_json(r);
    print_json(json);
    return 0;
  }
  print_shared(r);
  print("decode      {:.2f} tokens/s (best step {:.2f}), batch {}, context {}",
        batch / r.median_seconds, batch / r.best_seconds, o.bench.batch, o.bench.context);
  print("must read   {:.1f} MB a step: {:.1f} quantised, {:.1f} other weights, {:.1f} cache",
        r.bytes.all() / 1e6, r.bytes.packed / 1e6, r.bytes.other / 1e6, r.bytes.cache / 1e6);
  const std::string memory =
      r.device.empty()
          ? format("between the steps the memory gave {:.2f} (best {:.2f}) to {} streams a thread",
                   r.median_ceiling / 1e9, r.ceiling / 1e9, kMaxStreamReads)
          : format("before the steps the memory gave {:.2f} to plain reads", r.ceiling / 1e9);
  print("reads       {:.2f} GB/s (best {:.2f}); {}", median / 1e9, best / 1e9, memory);
  print("share       {:.1f} %{} (best of best {:.1f} %)", 100 * median_share(r),
        r.steps.empty() ? "" : " of the reads around a step", 100 * best / r.ceiling);
  if (r.alone_seconds > 0) {
    print("no host     {:.2f} tokens/s, {:.1f} %: steps that follow each other on the device",
          batch / r.alone_seconds, 100 * r.bytes.all() / r.alone_seconds / r.ceiling);
  }
  print_kernels(r);
  return 0;
}

int run_prefill(const Options& o) {
  const InferResult r = bench_prefill(o.bench);
  warn_when_busy(r);
  const auto tokens = static_cast<double>(o.bench.tokens);
  const double best = r.flops / r.best_seconds, median = r.flops / r.median_seconds;
  if (o.json) {
    Json json = shared_json(o, r);
    json["tokens"] = o.bench.tokens;
    json["tokens_per_s"]["median"] = tokens / r.median_seconds;
    json["tokens_per_s"]["best"] = tokens / r.best_seconds;
    json["flops"] = r.flops;
    json["gflops"]["median"] = median / 1e9;
    json["gflops"]["best"] = best / 1e9;
    json[r.device.empty() ? "sgemm_ceiling_gflops" : "bf16_gemm_ceiling_gflops"] = r.ceiling / 1e9;
    json["share"]["median"] = median / r.ceiling;
    json["share"]["best"] = best / r.ceiling;
    if (o.bench.profile) json["kernels"] = kernels_json(r);
    print_json(json);
    return 0;
  }
  print_shared(r);
  print("prefill     {:.1f} tokens/s (best {:.1f}), {} tokens", tokens / r.median_seconds,
        tokens / r.best_seconds, o.bench.tokens);
  print("must do     {:.2f} GFLOP a token", r.flops / tokens / 1e9);
  print("does        {:.1f} GFLOP/s (best {:.1f}); {} does {:.1f}", median / 1e9, best / 1e9,
        r.device.empty() ? "float sgemm" : "a large bf16 product", r.ceiling / 1e9);
  print("share       {:.1f} % (best {:.1f} %)", 100 * median / r.ceiling, 100 * best / r.ceiling);
  print_kernels(r);
  return 0;
}

}  // namespace

Command bench_decode_command() {
  return command<Options>("bench decode", "tokens/s beside what the memory can read",
                          describe_decode, run_decode);
}

Command bench_prefill_command() {
  return command<Options>("bench prefill", "a prompt's speed beside the float matrix product's",
                          describe_prefill, run_prefill);
}

}  // namespace tephra
