// SPDX-License-Identifier: Apache-2.0
// tephra bench train. On the CPU: how fast a step of a config is beside the peak, where its time
// goes, how it grows (bench_train.h). Of a preset, or on a GPU: whole steps with random weights on
// random tokens, optimizer included, and on a GPU kernel by kernel.
#include "tephra/base/clock.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_train.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/output.h"
#include "tephra/core/checksum.h"
#include "tephra/device/gpu/datasheet.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/train/config.h"
#include "tephra/train/micro_batch.h"
#include "tephra/train/trainer.h"

namespace tephra {
namespace {

struct Options {
  std::optional<std::string> config;
  std::vector<std::string> set;
  int64_t tokens = 2048;
  double seconds = 6;
  bool quick = false;

  std::string model;
  std::optional<int64_t> layers, vocabulary;
  std::string device = "auto", dtype = "bf16", matrices = "muon";
  int64_t context = 4096, micro_tokens = 4096, batch_tokens = 32768, steps = 2;
  std::vector<std::string> recompute;
  bool profile = false, hash = false, f32_newton_schulz = false, json = false;

  // What was given of the flags that only a config has, and of those that only whole steps have.
  std::vector<std::string> of_config, of_steps;
};

void describe(Flags& flags, Options& o) {
  flags.note_given(&o.of_config);
  flags.add("--config FILE", o.config,
            "a training config; default: the model of configs/60m.toml, built in");
  flags.add("--set KEY=VALUE", o.set, "override a key of the config");
  flags.add("--tokens", o.tokens, "of a step: whole documents of the config's context, or less")
      .range(1, 1 << 24);
  flags.add("--seconds", o.seconds, "for comparing a step with the peak").range(0, 3600);
  flags.add("--quick", o.quick, "fewer passes, fewer and smaller points");
  flags.note_given(nullptr);
  describe_device(flags, o.device, "; for a config it is the CPU");
  flags.add("--model PRESET", o.model,
            "whole steps of a preset instead (tephra checkpoint random --help lists them); on a "
            "GPU always, default zaya1-8b. The flags from here on are for these");
  flags.note_given(&o.of_steps);
  flags.add("--layers", o.layers, "so many layers instead of the preset's").range(1, 1000);
  flags.add("--vocabulary", o.vocabulary, "so many rows of the embedding").range(16, 1 << 20);
  flags.add("--dtype", o.dtype, "of weights and activations").choices({"bf16", "f32"});
  flags.add("--matrices", o.matrices, "their optimizer").choices({"muon", "adamw"});
  flags.add("--f32-newton-schulz", o.f32_newton_schulz, "Muon's products in f32, not in bf16");
  flags.add("--context", o.context, "tokens of a sequence").range(1, 1 << 20);
  flags.add("--micro-tokens", o.micro_tokens, "tokens of one forward pass").range(1, 1 << 24);
  flags.add("--batch-tokens", o.batch_tokens, "tokens of one step").range(1, 1 << 30);
  flags.add("--steps", o.steps, "timed steps, after one that is not").range(1, 10000);
  flags.add("--recompute CLASS", o.recompute, "op classes to compute again, or all; repeatable");
  flags.add("--profile", o.profile, "one more step with every kernel timed (GPU only)");
  flags.add("--hash", o.hash,
            "a hash of weights and optimizer state after the timed steps: equal runs have equal "
            "ones");
  flags.note_given(nullptr);
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra bench train");
  flags.example("tephra bench train --config configs/quickstart.toml --tokens 4096 --quick");
  flags.example("tephra bench train --model zaya1-8b --device gpu --recompute all --profile");
  flags.example("tephra bench train --device gpu --steps 20 --batch-tokens 32768 --hash");
  flags.example(
      "tephra bench train --model zaya1-8b --layers 2 --vocabulary 8192 --device cpu --dtype f32");
}

Json config_of(const Options& o) {
  ModelSettings settings;
  settings.preset = o.model;
  settings.num_hidden_layers = o.layers;
  settings.dtype = o.dtype;
  const Json preset = preset_config(o.model);
  settings.vocab_size = o.vocabulary;
  return model_config(settings, preset.find("vocab_size")->integer());
}

std::vector<MicroBatch> random_batch(const Options& o, const TokenIds& tokens) {
  std::vector<MicroBatch> parts;
  uint64_t drawn = 0;
  for (int64_t at = 0; at < o.batch_tokens; at += o.micro_tokens) {
    const Tensor ids({o.micro_tokens / o.context, o.context}, DType::i32);
    for (int64_t i = 0; i < ids.numel(); ++i) {
      ids.set(i, double(philox({7, 0, 0}, drawn++)[0] % static_cast<uint64_t>(tokens.usable)));
    }
    parts.push_back(next_token_batch(ids, tokens, "random tokens"));
  }
  return parts;
}

struct Measured {
  std::vector<double> seconds;    // of each step
  double optimizer_seconds = 0;   // of the last
  double first_step_seconds = 0;  // from the start of the program to the end of its first step
  double loss = 0;
  std::string state_hash;  // empty when it was not asked for
  std::array<MemoryUse, kNumPurposes + 1> memory;
  std::vector<gpu::KernelTime> kernels;
};

class Bench {
 public:
  Bench(const Options& o, const Json& config)
      : o_(o),
        device_(parse_device(o.device)),
        recompute_(recompute_of(o.recompute, "--recompute")),
        model_(
            model_kind(config, o.model)
                .create(
                    config, o.model,
                    {.dtype = *parse_dtype(o.dtype), .device = device_, .with_gradients = true})),
        parts_(random_batch(o, model_->tokens())) {
    model_->parameters().initialise(1);
    OptimizerOptions options;
    options.muon.newton_schulz.bf16 = !o.f32_newton_schulz;
    const RuleOptions rules{.matrices =
                                o.matrices == "muon" ? UpdateRule::muon : UpdateRule::adamw};
    optimizer_ = std::make_unique<Optimizer>(
        model_->parameters(), assign_rules(model_->parameters().specs(), rules), options);
  }

  Measured run() {
    Measured m;
    step(m);  // warms up: algorithms are chosen, memory is taken
    m.first_step_seconds = process_seconds();
    m.seconds.clear();
    for (int64_t i = 0; i < o_.steps; ++i) step(m);
    m.memory = memory_use(device_.kind);
    if (o_.hash) m.state_hash = state_hash();
    if (o_.profile) {
      gpu::start_profile(device_);
      step(m);
      m.seconds.pop_back();
      m.kernels = gpu::finish_profile(device_);
    }
    return m;
  }

 private:
  void wait() const {
    if (device_.kind == Device::Kind::gpu) gpu::synchronize(device_);
  }

  // By the names and bits of everything that a checkpoint would keep of them.
  std::string state_hash() const {
    Xxh3 all;
    const auto add = [&](const std::string& name, const Tensor& value) {
      const std::string line = format("{} {:016x}\n", name, checksum(value));
      all.add(std::as_bytes(std::span(line)));
    };
    const ParameterStore& store = model_->parameters();
    for (size_t i = 0; i < store.specs().size(); ++i) add(store.specs()[i].name, store.at(i));
    for (const StateTensor& s : optimizer_->state()) add(s.name, s.tensor);
    return hash_text(all.value());
  }

  void step(Measured& m) {
    stop_if_interrupted();
    const double begin = steady_seconds();
    m.loss =
        accumulate_gradients(*model_, parts_, {.recompute = recompute_, .may_stop = true}).loss;
    wait();
    const double middle = steady_seconds();
    optimizer_->step(1e-4);
    wait();
    m.optimizer_seconds = steady_seconds() - middle;
    m.seconds.push_back(steady_seconds() - begin);
    log_info("step: {:.3f} s, of which the optimizer {:.3f}, loss {:.4f}", m.seconds.back(),
             m.optimizer_seconds, m.loss);
  }

  const Options& o_;
  Device device_;
  Recompute recompute_;
  std::unique_ptr<Model> model_;
  std::vector<MicroBatch> parts_;
  std::unique_ptr<Optimizer> optimizer_;
};

// FLOP/s by both definitions, as shares of what the datasheet says of this GPU; 0 where none does.
Mfu datasheet_mfu(const Options& o, const ModelFigures& f, double best) {
  const Device device = parse_device(o.device);
  if (device.kind == Device::Kind::cpu) return {};
  const gpu::Info& info = gpu::status().devices[static_cast<size_t>(device.index)];
  const auto tokens = static_cast<double>(o.batch_tokens);
  return mfu({.tokens = tokens,
              .model_flops = tokens * f.train_flops_per_token,
              .six_n_flops = tokens * 6 * static_cast<double>(f.active_without_embedding)},
             best, {.datasheet = gpu::datasheet_flops(info.name)});
}

Json to_json(const Options& o, const Measured& m, const ModelFigures& f, double best) {
  Json json;
  json["model"] = o.model;
  json["parameters"] = f.parameters;
  json["batch_tokens"] = o.batch_tokens;
  json["micro_tokens"] = o.micro_tokens;
  json["context"] = o.context;
  json["seconds"] = Json::Array(m.seconds.begin(), m.seconds.end());
  json["optimizer_seconds"] = m.optimizer_seconds;
  json["first_step_seconds"] = m.first_step_seconds;
  if (!m.state_hash.empty()) json["state_hash"] = m.state_hash;
  json["tokens_per_second"] = double(o.batch_tokens) / best;
  json["model_flops_per_second"] = double(o.batch_tokens) / best * f.train_flops_per_token;
  if (const Mfu share = datasheet_mfu(o, f, best); share.model_datasheet > 0) {
    json["mfu_model_datasheet"] = share.model_datasheet;
    json["mfu_6n_datasheet"] = share.six_n_datasheet;
  }
  json["peak_bytes"] = m.memory[kNumPurposes].peak_bytes;
  json["kernels"] = Json::Array{};
  for (const gpu::KernelTime& k : m.kernels) {
    Json row;
    row["name"] = k.name;
    row["calls"] = k.calls;
    row["milliseconds"] = k.milliseconds;
    json["kernels"].push_back(row);
  }
  return json;
}

void print_measured(const Options& o, const Measured& m, const ModelFigures& f, double best) {
  using enum Table::Align;
  const double rate = double(o.batch_tokens) / best;
  print(
      "{} parameters, steps of {} tokens: {:.3f} s at best, {:.0f} tokens/s, {:.1f} TFLOP/s by "
      "model FLOPs ({:.2f} GFLOP a token); the optimizer takes {:.3f} s",
      f.parameters, o.batch_tokens, best, rate, rate * f.train_flops_per_token / 1e12,
      f.train_flops_per_token / 1e9, m.optimizer_seconds);
  if (const Mfu share = datasheet_mfu(o, f, best); share.model_datasheet > 0) {
    print("MFU of the datasheet's peak: {:.1f} % by model FLOPs, {:.1f} % by 6 x active parameters",
          100 * share.model_datasheet, 100 * share.six_n_datasheet);
  }
  print("from the start of the program to the end of its first step: {:.1f} s",
        m.first_step_seconds);
  if (!m.state_hash.empty()) {
    print("state after {} steps, loss {:.6f}: {}", o.steps + 1, m.loss, m.state_hash);
  }
  Table memory({left, right});
  memory.add({"memory at its peak", human_bytes(m.memory[kNumPurposes].peak_bytes)});
  for (int i = 0; i < kNumPurposes; ++i) {
    memory.add({"  " + to_text(static_cast<Purpose>(i)), human_bytes(m.memory[i].peak_bytes)});
  }
  memory.print();
  if (m.kernels.empty()) return;
  double total = 0;
  for (const gpu::KernelTime& k : m.kernels) total += k.milliseconds;
  Table table({left, right, right, right});
  table.add({"kernels of", "calls", "ms", "share"});
  for (const gpu::KernelTime& k : m.kernels) {
    table.add({k.name, format("{}", k.calls), format("{:.1f}", k.milliseconds),
               format("{:.1f} %", k.milliseconds / total * 100)});
  }
  table.print();
}

RunConfig run_config(const Options& o) {
  if (!o.config) {
    require(o.set.empty(), "--set changes a key of --config FILE; there is none");
    return train_bench_config();
  }
  RunConfig config;
  ConfigFile::read(*o.config, o.set).load(config);
  return config;
}

int run_config_bench(const Options& o) {
  refuse_given(o.of_steps,
               "for whole steps, of --model PRESET or on a GPU; a config on the CPU has --config "
               "FILE and --set KEY=VALUE");
  const TrainBenchOptions options{
      .config = run_config(o), .tokens = o.tokens, .seconds = o.seconds, .quick = o.quick};
  require(whole_documents(options.config, o.tokens) == o.tokens,
          "--tokens: expected a multiple of the context {}, or less; got {}",
          options.config.phases.front().context, o.tokens);
  const TrainBench bench = bench_train(options);
  if (o.json) {
    print_json(to_json(bench, options));
  } else {
    print(bench, options);
  }
  return 0;
}

// What can be told before the model takes its memory.
void check_steps(const Options& o, bool on_cpu) {
  refuse_given(o.of_config,
               "for a config, which is measured on the CPU: with --device cpu, without --model");
  require(!on_cpu || !o.profile, "--profile: only kernels of a GPU are timed, got --device {}",
          o.device);
  require(o.micro_tokens % o.context == 0,
          "--micro-tokens: expected a multiple of --context {}, got {}", o.context, o.micro_tokens);
  require(o.batch_tokens % o.micro_tokens == 0,
          "--batch-tokens: expected a multiple of --micro-tokens {}, got {}", o.micro_tokens,
          o.batch_tokens);
}

int run(const Options& given) {
  Options o = given;
  if (o.device == "auto" && o.model.empty() && !o.of_config.empty()) o.device = "cpu";
  const bool on_cpu = parse_device(o.device).kind == Device::Kind::cpu;
  if (o.model.empty() && on_cpu) return run_config_bench(o);
  check_steps(o, on_cpu);
  if (o.model.empty()) o.model = "zaya1-8b";
  const Json config = config_of(o);
  const ModelFigures figures = model_kind(config, o.model).figures(config, o.model, o.context);
  const Measured m = Bench(o, config).run();
  const double best = *std::min_element(m.seconds.begin(), m.seconds.end());
  if (o.json) {
    print_json(to_json(o, m, figures, best));
  } else {
    print_measured(o, m, figures, best);
  }
  return 0;
}

}  // namespace

Command bench_train_command() {
  return command<Options>("bench train",
                          "the speed of training steps, where their time goes, and how it grows",
                          describe, run);
}

}  // namespace tephra
