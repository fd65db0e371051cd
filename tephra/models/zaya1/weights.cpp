// SPDX-License-Identifier: Apache-2.0
// Published tensor names. The native ones are our own; the legacy layout numbers half-layers
// (attention 2l, experts 2l+1), keeps one tensor per expert, and gives a residual scale to the
// half-layer that reads it where the native layout gives it to the one that wrote it.
#include <algorithm>

#include "tephra/base/log.h"
#include "tephra/models/zaya1/config.h"

namespace tephra::zaya1 {
namespace {

struct Rename {
  std::string_view native;  // prefix of what follows "model.layers.l."
  int half;                 // legacy half-layer: 2l + half
  std::string_view legacy;  // what stands in its place
};

// The first that matches applies. BLOCK is zaya_block, or smoe_block before the release.
constexpr Rename kLayerRenames[] = {
    {"input_layernorm.", 0, "input_norm."},
    {"self_attn.qkv_proj.q_proj.", 0, "self_attn.qkv.linear_q."},
    {"self_attn.qkv_proj.k_proj.", 0, "self_attn.qkv.linear_k."},
    {"self_attn.qkv_proj.v_proj_current.", 0, "self_attn.qkv.val_proj1."},
    {"self_attn.qkv_proj.v_proj_delayed.", 0, "self_attn.qkv.val_proj2."},
    {"self_attn.qkv_proj.conv_qk_depthwise.", 0, "self_attn.qkv.conv_qk.0."},
    {"self_attn.qkv_proj.conv_qk_grouped.", 0, "self_attn.qkv.conv_qk.1."},
    {"self_attn.qk_norm.temp", 0, "self_attn.qkv.temp"},
    {"self_attn.o_proj.", 0, "self_attn.o_proj."},
    {"post_attention_residual_scale.", 1, "res_scale."},
    {"post_attention_layernorm.", 1, "input_norm."},
    {"mlp.gate.router_mlp.norm.", 1, "BLOCK.router.rmsnorm_eda."},
    {"mlp.gate.router_mlp.fc1.", 1, "BLOCK.router.router_mlp.0."},
    {"mlp.gate.router_mlp.fc2.", 1, "BLOCK.router.router_mlp.2."},
    {"mlp.gate.router_mlp.out_proj.", 1, "BLOCK.router.router_mlp.4."},
    {"mlp.gate.", 1, "BLOCK.router."},
    {"mlp.experts.gate_up_proj", 1, "BLOCK.experts.local_experts.EXPERT.linear_fc1.weight"},
    {"mlp.experts.down_proj", 1, "BLOCK.experts.local_experts.EXPERT.linear_fc2.weight"},
    {"post_mlp_residual_scale.", 2, "res_scale."},
};

constexpr std::pair<std::string_view, std::string_view> kModelRenames[] = {
    {"model.norm.", "model.final_norm."},
    {"model.input_hidden_states_", "model.layers.0.res_scale.hidden_states_"},
    {"model.", "model."},
    {"lm_head.", "lm_head."},
};

std::string replaced(std::string text, std::string_view what, const std::string& with) {
  if (const size_t at = text.find(what); at != std::string::npos) {
    text.replace(at, what.size(), with);
  }
  return text;
}

struct LegacyNames {
  int64_t num_layers;
  int64_t num_experts;
  std::string block;

  // Those that make up the native parameter.
  std::vector<std::string> of(const ParameterSpec& spec) const {
    const std::string_view name = spec.name;
    constexpr std::string_view kLayers = "model.layers.";
    if (!name.starts_with(kLayers)) {
      for (const auto& [native, legacy] : kModelRenames) {
        if (name.starts_with(native)) {
          return {std::string(legacy) + std::string(name.substr(native.size()))};
        }
      }
    }
    const size_t dot = name.find('.', kLayers.size());
    const int64_t layer =
        std::stoll(std::string(name.substr(kLayers.size(), dot - kLayers.size())));
    return in_layer(spec, layer, name.substr(dot + 1));
  }

 private:
  std::vector<std::string> in_layer(const ParameterSpec& spec, int64_t layer,
                                    std::string_view rest) const {
    const auto* rename = std::find_if(std::begin(kLayerRenames), std::end(kLayerRenames),
                                      [&](const Rename& r) { return rest.starts_with(r.native); });
    TEPHRA_ASSERT(rename != std::end(kLayerRenames), "every native name has a legacy one");
    const int64_t half = 2 * layer + rename->half;
    std::string name = half < 2 * num_layers ? format("model.layers.{}.", half) : "model.";
    name += rename->legacy;
    name += rest.substr(rename->native.size());
    name = replaced(name, "BLOCK", block);
    if (spec.kind != ParameterKind::experts) return {name};
    std::vector<std::string> names;
    for (int64_t e = 0; e < num_experts; ++e) {
      names.push_back(replaced(name, "EXPERT", format("{}", e)));
    }
    return names;
  }
};

std::string block_name(const TensorFolder& folder) {
  const bool early =
      std::any_of(folder.names().begin(), folder.names().end(),
                  [](const auto& name) { return name.find(".smoe_block.") != std::string::npos; });
  return early ? "smoe_block" : "zaya_block";
}

bool is_rotary_table(std::string_view name) { return name.ends_with("inv_freq"); }

}  // namespace

WeightPlan weight_plan(const TensorFolder& folder, const Config& config, bool legacy) {
  const LegacyNames names = {config.num_layers, config.num_experts,
                             legacy ? block_name(folder) : ""};
  WeightPlan plan;
  plan.ignored = is_rotary_table;
  if (config.tied_embedding) {
    plan.copies.emplace_back("lm_head.weight", "model.embed_tokens.weight");
  }
  for (ParameterSpec& spec : parameters(config)) {
    std::vector<std::string> from = {spec.name};
    if (legacy) from = names.of(spec);
    plan.sources.push_back({std::move(spec), std::move(from)});
  }
  return plan;
}

void load_weights(const TensorFolder& folder, const Config& config, bool legacy,
                  ParameterStore& store) {
  load_weights(folder, config, weight_plan(folder, config, legacy), store);
}

void load_weights(const TensorFolder& folder, const Config& config, WeightPlan plan,
                  ParameterStore& store) {
  check_weights(folder, plan);
  for (const WeightSource& source : plan.sources) {
    if (!store.contains(source.parameter.name)) continue;  // it stays where it is
    copy_weight(folder, source, store[source.parameter.name]);
    release(folder, source);
  }
  std::vector<int64_t> open;  // layers whose skip class can win
  for (int64_t l = 0; config.mlp == MlpType::moe && l < config.num_layers; ++l) {
    const Tensor& biases = store[format("model.layers.{}.mlp.gate.balancing_biases", l)];
    if (biases.at(config.num_experts) > -1) open.push_back(l);
  }
  if (!open.empty()) {
    log_warning(
        "the bias of the skip class is above -1 in {} of {} layers (first: layer {}), so a token "
        "can "
        "skip its experts there; it then adds {}",
        open.size(), config.num_layers, open[0],
        config.skip_rule == SkipRule::zero ? "nothing (skip rule: zero)"
                                           : "its normed input (skip rule: identity)");
  }
}

}  // namespace tephra::zaya1
