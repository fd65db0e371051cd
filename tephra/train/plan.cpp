// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/plan.h"

#include <algorithm>

#include "tephra/base/table.h"
#include "tephra/base/text.h"
#include "tephra/device/machine.h"
#include "tephra/models/model.h"
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

int64_t activation_bytes(const RunConfig& config, const Json& model_config, const Phases& phases) {
  const DType dtype = config.model.dtype == "bf16" ? DType::bf16 : DType::f32;
  const Recompute recompute = recompute_of(config.step.recompute);
  int64_t most = 0;
  for (int64_t p = 0; p < phases.count(); ++p) {
    const int64_t context = phases.settings(p).context;
    most = std::max(most, std::max(context, config.step.micro_tokens / context * context));
  }
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

}  // namespace

MemoryPlan plan_memory(const RunConfig& config, const Json& model_config, const Phases& phases) {
  const ModelKind& kind = model_kind(model_config, kWhere);
  const std::vector<ParameterSpec> specs = kind.parameters(model_config, kWhere);
  const auto matrices = config.optimizer.matrices == "muon" ? UpdateRule::muon : UpdateRule::adamw;
  const std::vector<ParameterRule> rules = assign_rules(specs, {.matrices = matrices});
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
  plan.activations = activation_bytes(config, model_config, phases);
  plan.workspace = plan.weights + plan.optimizer;  // the copy that a checkpoint is written from
  if (matrices == UpdateRule::muon) plan.workspace += 4 * largest_matrix(specs) * wide;
  return plan;
}

std::string plan_text(const RunConfig& config, const Json& model_config, const Phases& phases,
                      const Path& run_dir) {
  const ModelKind& kind = model_kind(model_config, kWhere);
  const std::vector<ParameterSpec> specs = kind.parameters(model_config, kWhere);
  const ModelFigures figures =
      kind.figures(model_config, kWhere, phases.settings(phases.count() - 1).context);
  const MemoryPlan plan = plan_memory(config, model_config, phases);

  std::string out = dump_config(config) + "\n";
  out += format("run folder: {}\n", run_dir.string());
  out += format("model: {} parameters, {} without the embedding, {} of these active\n",
                human_count(figures.parameters), human_count(figures.parameters_without_embedding),
                human_count(figures.active_without_embedding));
  out += format("work: {:.3f} GFLOP a token, {:.3g} FLOP in all\n\n",
                figures.train_flops_per_token / 1e9,
                figures.train_flops_per_token * static_cast<double>(phases.tokens()));
  out += rules_table(specs, assign_rules(specs, {.matrices = config.optimizer.matrices == "muon"
                                                                 ? UpdateRule::muon
                                                                 : UpdateRule::adamw}));
  out += "\n" + phases.table() + "\n";
  const std::pair<const char*, int64_t> rows[] = {
      {"weights", plan.weights},     {"gradients", plan.gradients},
      {"optimizer", plan.optimizer}, {"activations", plan.activations},
      {"workspace", plan.workspace}, {"in all", plan.total()}};
  out += "memory:\n";
  for (const auto& [name, bytes] : rows)
    out += format("  {:<12}{:>12}\n", name, human_bytes(bytes));
  const int64_t machine = this_machine().memory_bytes;
  out += format("  this machine{:>12}\n", human_bytes(machine));
  if (machine > 0 && plan.total() > machine) {
    out +=
        "it does not fit: use a smaller step.micro_tokens, step.recompute, model.dtype = "
        "\"bf16\", or a smaller model\n";
  }
  return out;
}

}  // namespace tephra
