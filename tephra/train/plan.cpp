// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/plan.h"

#include <algorithm>

#include "tephra/base/table.h"
#include "tephra/base/text.h"
#include "tephra/device/gpu/runtime.h"
#include "tephra/device/machine.h"
#include "tephra/models/model.h"
#include "tephra/ops/as_on_a_gpu.h"
#include "tephra/ops/linear_cross_entropy.h"
#include "tephra/optim/optimizer.h"
#include "tephra/train/micro_batch.h"
#include "tephra/train/trainer.h"

namespace tephra {
namespace {

constexpr const char* kWhere = "[model]";

// Peak bytes of activations and workspace in one pass of a model like this one but for its depth,
// its vocabulary and its experts, none of which changes what a layer keeps of a token.
int64_t measured_peak(Json config, DType dtype, const Recompute& recompute, int64_t layers,
                      int64_t tokens) {
  constexpr int64_t kVocabulary = 256;
  config["num_hidden_layers"] = layers;
  config["vocab_size"] = kVocabulary;
  if (config.find("num_experts")) config["num_experts"] = 1;
  if (config.find("layer_types")) {
    Json types(Json::Array{});
    for (int64_t l = 0; l < layers; ++l) types.push_back("hybrid");
    config["layer_types"] = types;
  }
  const auto model =
      model_kind(config, kWhere).create(config, kWhere, {.dtype = dtype, .with_gradients = true});
  model->parameters().initialise(1);
  Tensor ids({1, tokens}, DType::i32);
  for (int64_t i = 0; i < tokens; ++i) ids.set(i, static_cast<double>(i % kVocabulary));
  const MicroBatch batch = next_token_batch(ids, model->tokens(), "plan");
  const auto held = [] {
    const auto use = memory_use();
    return use[static_cast<size_t>(Purpose::activations)];
  };
  reset_memory_peaks();
  const int64_t before = held().bytes;
  accumulate_gradients(*model, std::span(&batch, 1), {.recompute = recompute});
  return held().peak_bytes - before;
}

// Tokens of the largest micro-batch: whole documents.
int64_t most_tokens(const RunConfig& config, const Phases& phases) {
  int64_t most = 0;
  for (int64_t p = 0; p < phases.count(); ++p) {
    const int64_t context = phases.settings(p).context;
    most = std::max(most, std::max(context, config.step.micro_tokens / context * context));
  }
  return most;
}

int64_t activation_bytes(const RunConfig& config, const Json& model_config, int64_t most,
                         Device device) {
  const AsOnAGpu as_there(device.kind == Device::Kind::gpu);
  const DType dtype = config.model.dtype == "bf16" ? DType::bf16 : DType::f32;
  const Recompute recompute = recompute_of(config.step.recompute);
  constexpr int64_t kTokens = 256;
  const int64_t layers = model_config.find("num_hidden_layers")->integer();
  const int64_t one = measured_peak(model_config, dtype, recompute, 1, kTokens);
  const int64_t two = measured_peak(model_config, dtype, recompute, 2, kTokens);
  return (one + (two - one) * (layers - 1)) / kTokens * most;
}

int64_t largest_matrix(const std::vector<ParameterSpec>& specs) {
  int64_t most = 0;
  for (const ParameterSpec& spec : specs) {
    if (spec.kind != ParameterKind::matrix && spec.kind != ParameterKind::experts) continue;
    const Matrices m = matrices_of(spec);
    most = std::max(most, m.rows * m.cols);
  }
  return most;
}

// Logits and Muon's matrices are never there at the same time.
int64_t gpu_workspace(const std::vector<ParameterSpec>& specs, bool muon, int64_t tokens,
                      int64_t vocabulary, int64_t narrow) {
  const int64_t logits =
      gpu_logit_rows(tokens, vocabulary, 4) * vocabulary * (narrow == 2 ? 4 + narrow : 4);
  int64_t matrices = 0;
  for (const ParameterSpec& spec : specs) {
    if (!muon || (spec.kind != ParameterKind::matrix && spec.kind != ParameterKind::experts)) {
      continue;
    }
    const Matrices m = matrices_of(spec);
    matrices += m.count * (m.rows * m.cols + newton_schulz_workspace(m.rows, m.cols)) * 4;
  }
  return std::max(logits, std::min(matrices, kMuonGpuBytes));
}

std::string memory_text(const MemoryPlan& plan, Device device) {
  const bool gpu = device.kind == Device::Kind::gpu;
  const std::pair<const char*, int64_t> rows[] = {
      {"weights", plan.weights},     {"gradients", plan.gradients},
      {"optimizer", plan.optimizer}, {"activations", plan.activations},
      {"workspace", plan.workspace}, {"in all", plan.total()}};
  std::string out = gpu ? format("memory of {}:\n", device) : "memory:\n";
  const auto line = [&](const char* name, int64_t bytes) {
    out += format("  {:<12}{:>12}\n", name, human_bytes(bytes));
  };
  for (const auto& [name, bytes] : rows) line(name, bytes);
  const int64_t machine = this_machine().memory_bytes;
  const auto& devices = gpu::status().devices;
  const bool there = gpu && device.index < static_cast<int>(devices.size());
  int64_t room = gpu ? 0 : machine;
  if (there) room = devices[static_cast<size_t>(device.index)].memory_bytes;
  if (gpu && !there) {
    out += format("  {} is not on this machine: its memory is not known\n", device);
  } else {
    line(gpu ? "this device" : "this machine", room);
  }
  if (room > 0 && plan.total() > room) {
    out +=
        "it does not fit: use a smaller step.micro_tokens, step.recompute, model.dtype = "
        "\"bf16\", or a smaller model\n";
  }
  if (!gpu) return out;
  out += "memory of the host:\n";
  line("checkpoints", plan.host);
  if (!there) return out;  // nor is its host this one
  line("this machine", machine);
  if (machine > 0 && plan.host > machine) {
    out += "it does not fit: a checkpoint is copied to the host before it is written\n";
  }
  return out;
}

}  // namespace

MemoryPlan plan_memory(const RunConfig& config, const Json& model_config, const Phases& phases,
                       Device device) {
  const ModelKind& kind = model_kind(model_config, kWhere);
  const std::vector<ParameterSpec> specs = kind.parameters(model_config, kWhere);
  const std::vector<ParameterRule> rules = optimizer_rules(specs, config.optimizer);
  const int64_t wide = 4, narrow = config.model.dtype == "bf16" ? 2 : 4;
  MemoryPlan plan;
  for (size_t i = 0; i < specs.size(); ++i) {
    const int64_t count = specs[i].shape.numel();
    if (specs[i].kind == ParameterKind::buffer) {
      plan.weights += count * wide;
      continue;
    }
    plan.weights += count * narrow;
    plan.gradients += count * wide;
    plan.optimizer += count * wide;                                          // first moment
    if (rules[i].rule == UpdateRule::adamw) plan.optimizer += count * wide;  // second
    if (narrow == 2) plan.optimizer += count * 2;                            // remainder
  }
  const int64_t tokens = most_tokens(config, phases);
  const int64_t copy = plan.weights + plan.optimizer;  // that a checkpoint is written from
  plan.activations = activation_bytes(config, model_config, tokens, device);
  const bool muon = std::any_of(rules.begin(), rules.end(),
                                [](const ParameterRule& r) { return r.rule == UpdateRule::muon; });
  if (device.kind == Device::Kind::gpu) {
    plan.host = copy;
    plan.workspace =
        gpu_workspace(specs, muon, tokens, model_config.find("vocab_size")->integer(), narrow);
  } else {
    plan.workspace = copy + (muon ? 4 * largest_matrix(specs) * wide : 0);
  }
  return plan;
}

std::string plan_text(const RunConfig& config, const Json& model_config, const Phases& phases,
                      const Path& run_dir, Device device) {
  const ModelKind& kind = model_kind(model_config, kWhere);
  const std::vector<ParameterSpec> specs = kind.parameters(model_config, kWhere);
  const ModelFigures figures =
      kind.figures(model_config, kWhere, phases.settings(phases.count() - 1).context);
  const MemoryPlan plan = plan_memory(config, model_config, phases, device);

  std::string out = dump_config(config) + "\n";
  out += format("run folder: {}\n", run_dir.string());
  out += format("model: {} parameters, {} without the embedding, {} of these active\n",
                human_count(figures.parameters), human_count(figures.parameters_without_embedding),
                human_count(figures.active_without_embedding));
  out += format("work: {:.3f} GFLOP a token, {:.3g} FLOP in all\n\n",
                figures.train_flops_per_token / 1e9,
                figures.train_flops_per_token * static_cast<double>(phases.tokens()));
  out += rules_table(specs, optimizer_rules(specs, config.optimizer));
  out += "\n" + phases.table() + "\n";
  return out + memory_text(plan, device);
}

}  // namespace tephra
