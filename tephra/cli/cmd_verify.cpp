// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/log.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/random_model.h"
#include "tephra/infer/known_answers.h"
#include "tephra/train/trajectory.h"

namespace tephra {
namespace {

struct Options {
  std::optional<std::string> model;
  std::optional<std::string> golden;
  std::optional<std::string> known;
  std::optional<std::string> optimizer;
  bool self_check = false, engine = false;
  int64_t tokens = 48;
  int64_t seed = 1;
  int64_t bits = 0;
  std::string dtype = "f32";
  std::string device = "auto";
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add(
      "--model", o.model,
      "model folder: config.json and model*.safetensors, or a preset with random weights for "
      "the self-check; not for the reference of a single attention layer, which holds its own "
      "weights");
  flags.add("--golden", o.golden, "reference data: checks whatever the file holds");
  flags.add("--known NAME", o.known,
            "answers that were published for a released model: zaya1-8b, or a .json file "
            "(docs/formats/known-answers.md)");
  flags
      .add("--optimizer", o.optimizer,
           "the reference is a training run: replay it with this optimizer and compare losses, "
           "gradient norms and final parameters")
      .choices({"muon", "adamw"});
  flags.add("--self-check", o.self_check,
            "needs no reference: cached decoding, chunks, rollback and packing against the full "
            "forward pass; on a GPU also the engine's kernels for single tokens");
  flags.add("--engine", o.engine,
            "of the self-check only what is for a GPU: token probabilities of the engine's kernels "
            "against those of the training pass, on a text that the model draws");
  flags.add("--tokens", o.tokens, "tokens of the self-check").range(2, 1e6);
  flags.add("--seed", o.seed, "of the self-check's tokens").range(0, 9e18);
  flags.add("--bits", o.bits, "of a preset's weights, drawn quantised: 8 or 4; 0: as --dtype")
      .range(0, 8);
  flags.add("--dtype", o.dtype, "arithmetic").choices({"f64", "f32", "bf16"});
  describe_device(flags, o.device);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra verify --model build/quickstart/model --self-check");
  flags.example(
      "tephra verify --model tests/golden/zaya-tiny --golden "
      "tests/golden/zaya-tiny/golden.safetensors");
  flags.example(
      "tephra verify --model tests/golden/train-muon --golden "
      "tests/golden/train-muon/trajectory.safetensors --optimizer muon --json");
  flags.example("tephra verify --golden tests/golden/attention/attention-mla.safetensors");
  flags.example("tephra verify --model zaya1-8b --self-check --dtype bf16 --device gpu");
  flags.example("tephra verify --model zaya1-8b --bits 4 --self-check --dtype bf16 --device gpu");
  flags.example("tephra verify --model zaya1-8b --engine --tokens 512 --dtype bf16 --device gpu");
  flags.example("tephra verify --known zaya1-8b --model models/ZAYA1-8B");
}

// What the reference file asks for: a trained run is told from a single pass by its metadata.
VerifyReport verify_file(Model& model, const SafetensorsFile& golden, const Options& o) {
  if (o.optimizer) {
    return verify_trajectory(model, golden,
                             *o.optimizer == "muon" ? UpdateRule::muon : UpdateRule::adamw);
  }
  require(!golden.metadata().contains("optimizer"),
          "{} records a training run; add --optimizer muon or --optimizer adamw",
          golden.path().string());
  return verify_golden(model, golden);
}

// JSON has no infinity.
Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void print_json(const VerifyReport& report) {
  Json checks = Json::Array{};
  for (const Check& c : report.checks) {
    Json row;
    row["name"] = c.name;
    row["metric"] = to_text(c.metric);
    row["max_abs"] = finite(c.max_abs);
    row["max_rel"] = finite(c.max_rel);
    row["worst"] = c.worst;
    row["bound"] = c.bound;
    row["pass"] = c.pass;
    checks.push_back(row);
  }
  Json ignored = Json::Array{};
  for (const std::string& name : report.ignored) ignored.push_back(name);
  Json notes = Json::Array{};
  for (const std::string& note : report.notes) notes.push_back(note);
  Json out;
  out["pass"] = report.pass();
  out["checks"] = checks;
  out["ignored"] = ignored;
  out["notes"] = notes;
  std::printf("%s\n", out.dump(2).c_str());
}

void print_table(const VerifyReport& report) {
  std::printf("%-34s %-14s %10s %10s %10s  %-6s  %s\n", "check", "bound on", "bound", "max abs",
              "max rel", "", "worst");
  for (const Check& c : report.checks) {
    std::printf("%-34s %-14s %10.2g %10.2g %10.2g  %-6s  %s\n", c.name.c_str(),
                to_text(c.metric).c_str(), c.bound, c.max_abs, c.max_rel,
                c.pass ? "pass" : "FAILED", c.worst.c_str());
  }
  for (const std::string& note : report.notes) std::printf("%s\n", note.c_str());
  if (report.pass()) std::printf("all %zu checks passed\n", report.checks.size());
}

// GPUs do not compute in f64.
Device device_of(const Options& o) {
  if (o.device == "auto" && o.dtype == "f64") return kCpu;
  return parse_device(o.device);
}

VerifyReport verify_layer(const SafetensorsFile& golden, const Options& o) {
  require(!o.model && !o.self_check && !o.engine && !o.optimizer && !o.known,
          "{} is of one attention layer and holds its weights; leave out --model, --known, "
          "--self-check, --engine and --optimizer",
          golden.path().string());
  return verify_attention(golden, *parse_dtype(o.dtype), device_of(o));
}

VerifyReport verify_model(const std::optional<SafetensorsFile>& golden, const Options& o) {
  if (!o.model) {
    throw Error(Fault::usage, "expected --model DIR, got none",
                o.known == "zaya1-8b" ? "tephra pull Zyphra/ZAYA1-8B brings the weights; then add "
                                        "--model ZAYA1-8B"
                                      : "");
  }
  const std::optional<KnownAnswers> known =
      o.known ? std::optional(known_answers(*o.known)) : std::nullopt;
  const DType dtype = *parse_dtype(o.dtype);
  const bool gradients = golden && dtype != DType::bf16;
  const auto model = load_or_draw(*o.model,
                                  {.dtype = dtype,
                                   .device = device_of(o),
                                   .with_gradients = gradients,
                                   .mapped = !gradients},
                                  o.bits)
                         .model;
  VerifyReport report;
  const auto add = [&](const VerifyReport& more) {
    report.checks.insert(report.checks.end(), more.checks.begin(), more.checks.end());
    report.notes.insert(report.notes.end(), more.notes.begin(), more.notes.end());
  };
  if (golden) report = verify_file(*model, *golden, o);
  if (known) add(verify_known(*model, *known));
  if (o.self_check) add(verify_itself(*model, o.tokens, static_cast<uint64_t>(o.seed)));
  bool engine_ran = false;
  if ((o.self_check || o.engine) && device_of(o).kind == Device::Kind::gpu) {
    const VerifyReport of_engine = verify_engine(*model, o.tokens, static_cast<uint64_t>(o.seed));
    engine_ran = !of_engine.checks.empty();
    add(of_engine);
  }
  require(!o.engine || engine_ran,
          "--engine: expected a GPU and a model in bf16 that has kernels for single tokens there");
  return report;
}

int run(const Options& o) {
  require(o.golden || o.known || o.self_check || o.engine,
          "expected --golden FILE, --known NAME, --self-check or --engine, got none of them");
  require(!o.optimizer || o.golden, "--optimizer: expected --golden FILE with it, got none");
  const std::optional<SafetensorsFile> golden =
      o.golden ? std::optional(SafetensorsFile::open(*o.golden)) : std::nullopt;
  const VerifyReport report = golden && is_attention_reference(*golden) ? verify_layer(*golden, o)
                                                                        : verify_model(golden, o);
  if (o.json) {
    print_json(report);
  } else {
    print_table(report);
  }
  if (!report.ignored.empty() && o.dtype != "bf16") {
    log_warning("{} tensors of {} were not checked, the first is {}", report.ignored.size(),
                *o.golden, report.ignored[0]);
  }
  int failed = 0;
  for (const Check& c : report.checks) failed += c.pass ? 0 : 1;
  require_data(failed == 0, "{} of {} checks failed", failed, report.checks.size());
  return 0;
}

}  // namespace

Command verify_command() {
  return command<Options>("verify", "compare a model with reference data, or with itself", describe,
                          run);
}

}  // namespace tephra
