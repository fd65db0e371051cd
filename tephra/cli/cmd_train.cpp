// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/temporary_folder.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/machine_file.h"
#include "tephra/cli/model_device.h"
#include "tephra/device/device_name.h"
#include "tephra/device/fma_peak.h"
#include "tephra/device/gpu/datasheet.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/machine.h"
#include "tephra/device/memory.h"
#include "tephra/models/checkpoint.h"
#include "tephra/train/plan.h"
#include "tephra/train/run_folder.h"
#include "tephra/train/trainer.h"

namespace tephra {
namespace {

struct Options {
  std::string config;
  std::vector<std::string> set;
  std::optional<std::string> out, init_from;
  std::string resume = "auto", device = "auto";
  bool plan = false, dry_run = false, reference = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("CONFIG", o.config, "a TOML file; docs/config.md lists its keys");
  flags.add("--set KEY=VALUE", o.set, "override a key of the config, e.g. optimizer.clip_norm=0.5");
  flags.add("--out DIR", o.out, "the run folder; default: runs/ and the config's name");
  flags.add("--init-from DIR", o.init_from,
            "start from this model folder: its config, weights and tokenizer");
  flags.add("--resume auto|never|DIR", o.resume,
            "auto: go on after the run folder's newest good checkpoint, if there is one; never: "
            "start afresh; DIR: go on after this checkpoint (RUN/checkpoints/step-N) or after the "
            "newest of another run folder");
  describe_device(flags, o.device);
  flags.add("--plan", o.plan,
            "print what would be trained, on what, with how much memory; stop. With --device gpu "
            "on any machine");
  flags.add("--dry-run", o.dry_run, "do two steps on real data, save nothing, say what they took");
  flags.add("--config-reference", o.reference, "print every key of a config as Markdown; stop");
  flags.example("tephra train configs/quickstart.toml");
  flags.example("tephra train configs/tiny.toml --set phases.0.steps=200 --out /tmp/run");
  flags.example("tephra train my.toml --init-from ZAYA1-8B --plan");
  flags.example("tephra train my.toml --resume runs/my/checkpoints/step-500");
  flags.example("tephra train other.toml --out runs/branch --resume runs/my");
}

// The best of a few products.
double measured_gemm_flops() {
  constexpr double kSeconds = 0.1;
  const GemmPeer peer({{.m = 768, .n = 768, .k = 768, .transpose_b = true}});
  peer.run(num_threads());
  double best = 0;
  for (const double begin = steady_seconds(); steady_seconds() - begin < kSeconds;) {
    best = std::max(best, peer.flops() / seconds_of([&] { peer.run(num_threads()); }));
  }
  return best;
}

// The peak that MFU is a share of: what `tephra doctor` measured on this machine, else what can be
// measured now, and again when a step gives reason to doubt it.
double cpu_gemm_flops() {
  const Machine machine = this_machine();
  if (const auto known = load_ceilings(machine.cpu, num_threads())) return known->gemm_gflops * 1e9;
  const double measured = measured_gemm_flops();
  if (load_average() > machine.cores) {
    log_warning(
        "the peak that MFU is a share of was measured on a busy machine; run tephra doctor "
        "on an idle one");
  }
  return measured;
}

Peaks peaks(Device device) {
  if (device.kind != Device::Kind::cpu) {
    const std::string& name = gpu::status().devices[static_cast<size_t>(device.index)].name;
    return {.gemm = gpu::measure_ceilings(device).gemm_flops_per_second,
            .datasheet = gpu::datasheet_flops(name),
            .datasheet_text = name + " in bf16"};
  }
  const FmaPeak fma = fma_peak(num_threads());
  return {.gemm = cpu_gemm_flops(),
          .datasheet = fma.gflops() * 1e9,
          .datasheet_text = fma.text(),
          .measure_gemm = measured_gemm_flops};
}

struct Prepared {
  RunConfig config;
  Json model_config;
  std::shared_ptr<const Tokenizer> tokens;
  std::shared_ptr<const ChatRenderer> chats;  // null: no chat template
};

// The model ends its texts with the tokens that the tokenizer ends them with.
void put_special_ids(const Tokenizer& tokens, Json& config) {
  if (tokens.pad()) config["pad_token_id"] = int64_t{*tokens.pad()};
  if (tokens.bos()) config["bos_token_id"] = int64_t{*tokens.bos()};
  if (tokens.eos().empty()) return;
  Json ids(Json::Array{});
  for (const int32_t id : tokens.eos()) ids.push_back(int64_t{id});
  config["eos_token_id"] = tokens.eos().size() == 1 ? ids.array()[0] : ids;
}

Json config_of_model(const RunConfig& config, const Options& o, const Tokenizer& tokens) {
  if (!o.init_from) {
    Json made = model_config(config.model, ceil_div(tokens.vocab_size(), 128) * 128);
    put_special_ids(tokens, made);
    return made;
  }
  const ModelFolder folder = open_model_folder(*o.init_from);
  Json kept = folder.kind->native_config(folder.config, folder.where);
  kept["dtype"] = config.model.dtype == "bf16" ? "bfloat16" : "float32";
  return kept;
}

// A model that is there has its shape.
void warn_of_ignored_shape(const RunConfig& config) {
  RunConfig none = config;
  none.model = {};
  none.model.dtype = config.model.dtype;
  std::string keys;
  for (const std::string& key : changed_keys(dump_config(none), dump_config(config))) {
    keys += (keys.empty() ? "" : ", ") + key;
  }
  if (!keys.empty()) log_warning("--init-from brings the model's own config; ignored: {}", keys);
}

// What only the whole config shows, and a plan should say, too.
void check_phases(const Prepared& p, bool init_from) {
  std::vector<std::string> names;
  for (const SourceConfig& source : p.config.data.sources) names.push_back(source.name);
  if (names.empty()) names.emplace_back("environments");
  const Json* limit = p.model_config.find("max_position_embeddings");
  for (const PhaseSettings& phase : p.config.phases) {
    for (const MixtureSettings& part : phase.mixture) {
      const auto near = nearest(part.source, names);
      require(std::find(names.begin(), names.end(), part.source) != names.end(),
              "phase '{}': mixture: there is no source '{}'{}", phase.name, part.source,
              near ? format("; did you mean '{}'?", *near) : "");
    }
    if (!limit || !limit->is_int() || phase.context <= limit->integer()) continue;
    const std::string text = format("phase '{}': a context of {} is more than the model's limit {}",
                                    phase.name, phase.context, limit->integer());
    if (!init_from) throw Error(Fault::usage, text, "raise model.max_position_embeddings");
    log_warning("{} (max_position_embeddings of its config.json)", text);
  }
}

// Touches no run folder: it may be another process's, or of another run.
Prepared prepare(const Options& o, const Path& scratch) {
  Prepared p;
  ConfigFile::read(o.config, o.set).load(p.config);
  std::string& tokenizer = p.config.data.tokenizer;
  if (o.init_from && tokenizer == "bytes") tokenizer = *o.init_from;
  if (o.init_from) warn_of_ignored_shape(p.config);
  const Path folder = tokenizer_folder(p.config.data, scratch);
  p.tokens = std::make_shared<const Tokenizer>(Tokenizer::load(folder));
  if (ChatTemplate::present(folder)) {
    p.chats = std::make_shared<const ChatRenderer>(ChatTemplate::load(folder), p.tokens);
  }
  p.model_config = config_of_model(p.config, o, *p.tokens);
  const int64_t rows = p.model_config.find("vocab_size")->integer();
  require(p.tokens->vocab_size() <= rows,
          "the tokenizer has ids up to {}, the model's vocabulary only {} rows",
          p.tokens->vocab_size() - 1, rows);
  check_phases(p, o.init_from.has_value());
  return p;
}

std::unique_ptr<Model> make_model(const Prepared& p, const Options& o) {
  const LoadOptions load{.dtype = p.config.model.dtype == "bf16" ? DType::bf16 : DType::f32,
                         .device = parse_device(o.device),
                         .with_gradients = true,
                         .usable_tokens = p.tokens->vocab_size()};
  if (o.init_from) return load_model(*o.init_from, load);
  auto model = model_kind(p.model_config, "[model]").create(p.model_config, "[model]", load);
  model->parameters().initialise(static_cast<uint64_t>(p.config.seed));
  return model;
}

void report(const TrainSummary& s, const Path& run_dir) {
  if (s.steps == 0) {
    log_info("no step was left to do; {}", run_dir.string());
    return;
  }
  std::string text =
      format("done: {} steps in {}, loss {:.4f}", s.steps, human_seconds(s.seconds), s.loss);
  if (s.validation_loss) text += format(", held out {:.4f}", *s.validation_loss);
  if (s.accuracy) text += format(", {:.1f} % of held-out tasks right", 100 * *s.accuracy);
  if (s.skipped > 0) text += format(", {} bad steps", s.skipped);
  log_info("{}; {}", text, run_dir.string());
  log_info("{}", waits_text(s.speed, s.checkpoints.saved));
  log_info("{}", mfu_text(s.speed, s.peaks));
}

Path folder_of(const Options& o) {
  require(!o.out || !o.out->empty(), "--out: expected a folder, got nothing");
  if (o.out) return *o.out;
  RunConfig config;
  ConfigFile::read(o.config, o.set).load(config);
  const Path name = Path(config.name).lexically_normal();
  require(!name.empty() && name.is_relative() && name != "." && *name.begin() != "..",
          "{}: name: expected the name of a folder in runs/, got '{}'; --out names any other",
          o.config, clipped(config.name, 80));
  return Path("runs") / name;
}

// A model that has learnt to end its turns with a token, and is not told that this is an end, goes
// on and on.
void warn_of_open_ends(const Prepared& p) {
  const auto& sources = p.config.data.sources;
  const bool chats = std::any_of(sources.begin(), sources.end(),
                                 [](const SourceConfig& s) { return s.kind == "conversations"; });
  const std::optional<int32_t> end = chats && p.chats ? p.chats->end_of_turn() : std::nullopt;
  if (!end) return;
  const Json* ends = p.model_config.find("eos_token_id");
  Json::Array all = ends && ends->is_array() ? ends->array() : Json::Array{};
  if (ends && ends->is_int()) all.push_back(*ends);
  if (std::any_of(all.begin(), all.end(), [&](const Json& id) { return id.integer() == *end; })) {
    return;
  }
  log_warning(
      "{} ends the assistant's turns with {}, which is no end token of the model; add its id {} to "
      "eos_token_id of the model's config.json, or generation will not stop there",
      p.chats->where(), p.tokens->token(*end), *end);
}

int64_t resume(Trainer& trainer, const std::string& what) {
  if (what == "auto") return trainer.resume();
  return what == "never" ? trainer.start_afresh() : trainer.resume_from(what);
}

int run(const Options& o) {
  if (o.reference) {
    std::printf("%s", config_reference().c_str());
    return 0;
  }
  require(!o.config.empty(), "train needs a config file; see configs/ and tephra train --help");
  std::optional<TemporaryFolder> temporary(std::in_place, "train");
  const Path run_dir = o.dry_run ? temporary->path() : folder_of(o);
  const Prepared p = prepare(o, temporary->path());
  if (!o.dry_run) temporary.reset();  // so that a run that is killed leaves none
  const Phases phases(p.config.phases);
  if (o.plan) {
    const Device device = device_named(o.device);  // which need not be here
    std::printf("%s", plan_text(p.config, p.model_config, phases, run_dir, device).c_str());
    return 0;
  }

  warn_of_open_ends(p);
  const std::string config_text = dump_config(p.config);
  const int64_t vocabulary = p.model_config.find("vocab_size")->integer();
  Trainer trainer({.config = p.config,
                   .model_config = p.model_config,
                   .model = make_model(p, o),
                   .data = std::make_unique<StepData>(p.config, phases,
                                                      TextParts{p.tokens, p.chats, vocabulary}),
                   .tokenizer = p.tokens,
                   .run_dir = run_dir,
                   .peaks = peaks(parse_device(o.device)),
                   .try_steps = o.dry_run ? 2 : 0});
  const int64_t done = resume(trainer, o.resume);
  place_tokenizer(run_dir, p.config.data);
  write_run_files(run_dir, config_text, p.model_config);
  if (done > 0) {
    log_info("going on after step {} of {}", done, phases.steps());
  } else {
    log_info("{}{}", trainer.optimizer().table(), phases.table());
  }
  const TrainSummary summary = trainer.run();
  if (o.dry_run) {
    log_info("dry run: {} steps in {}, at most {} of memory; nothing was saved", summary.steps,
             human_seconds(summary.seconds),
             human_bytes(memory_use(parse_device(o.device).kind)[kNumPurposes].peak_bytes));
    return 0;
  }
  report(summary, run_dir);
  return 0;
}

}  // namespace

Command train_command() {
  return command<Options>("train", "train a model as a config file says", describe, run);
}

}  // namespace tephra
