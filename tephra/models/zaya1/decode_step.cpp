// SPDX-License-Identifier: Apache-2.0
// Which models the kernels of a decode step are for, and where their tensors lie.
#include <algorithm>
#include <bit>

#include "tephra/models/zaya1/decode_plan.h"
#include "tephra/models/zaya1/model.h"
#include "tephra/ops/linear.h"

namespace tephra::zaya1 {
namespace {

#if TEPHRA_GPU

bool has_decode_kernels(const Config& c, const DecodeMemory& memory) {
  const bool published = c.attention == AttentionType::cca && c.mlp == MlpType::moe &&
                         c.conv_count == 2 && c.conv0_width == 2 && c.conv1_width == 2 &&
                         c.qk_mean && c.value_shift && !c.attention_bias && !c.lm_head_bias &&
                         c.skip_rule == SkipRule::zero;
  const int64_t group = c.query_heads / c.kv_heads, half = c.rotary_dim() / 2;
  const bool heads = c.head_dim == kDecodeHeadDim && group <= 8 && half % 8 == 0 &&
                     std::has_single_bit(static_cast<uint64_t>(group)) &&
                     std::has_single_bit(static_cast<uint64_t>(half));
  const bool widths = decode_takes_depth(c.hidden) && decode_takes_depth(c.expert_hidden) &&
                      decode_takes_depth(c.query_heads * c.head_dim) &&
                      c.router_hidden == kDecodeRouter && c.num_experts <= kDecodeExperts &&
                      c.vocab_size % 16 == 0;
  const bool laid_out = std::all_of(memory.layers.begin(), memory.layers.end(), [](const auto& l) {
    return l.k.dense() && l.v.dense() && l.conv.dense() && l.value.dense();
  });
  return published && heads && widths && laid_out;
}

// Thetas are few: each is named by its place among the distinct ones.
int theta_index(std::vector<double>& thetas, double theta) {
  const auto found = std::find(thetas.begin(), thetas.end(), theta);
  if (found != thetas.end()) return static_cast<int>(found - thetas.begin());
  thetas.push_back(theta);
  return static_cast<int>(thetas.size()) - 1;
}

DecodeMatrix decode_matrix(const Weight& weight) {
  if (!weight.is_packed()) return {weight.tensor().data<bf16>()};
  return {weight.packed().blocks().raw(), weight.packed().format()};
}

class PlanMaker {
 public:
  PlanMaker(const ParameterStore& store, const std::string& prefix)
      : store_(store), prefix_(prefix) {}

  // Null when there is no such parameter.
  const bf16* operator()(const std::string& name) const {
    return store_.contains(prefix_ + name) ? store_[prefix_ + name].data<bf16>() : nullptr;
  }
  DecodeMerge merge(const std::string& at) const {
    return {(*this)(at + "hidden_states_scale"), (*this)(at + "hidden_states_bias"),
            (*this)(at + "residual_scale"), (*this)(at + "residual_bias")};
  }
  const Tensor& tensor(const std::string& name) const { return store_[prefix_ + name]; }
  Weight weight(const std::string& name) const { return store_.weight(prefix_ + name); }
  DecodeMatrix matrix(const std::string& name) const { return decode_matrix(weight(name)); }

 private:
  const ParameterStore& store_;
  std::string prefix_;
};

DecodeLayer decode_layer(const PlanMaker& at, const LayerConfig& config, const LayerState& state,
                         int theta) {
  const std::string qkv = "self_attn.qkv_proj.", gate = "mlp.gate.";
  return {.input_norm = at("input_layernorm.weight"),
          .qkv = at.matrix(qkv + "q_proj.weight"),
          .conv0 = at(qkv + "conv_qk_depthwise.weight"),
          .conv0_bias = at(qkv + "conv_qk_depthwise.bias"),
          .conv1 = at(qkv + "conv_qk_grouped.weight"),
          .conv1_bias = at(qkv + "conv_qk_grouped.bias"),
          .temperature = at("self_attn.qk_norm.temp"),
          .out = at.matrix("self_attn.o_proj.weight"),
          .after_attention = at.merge("post_attention_residual_scale."),
          .mlp_norm = at("post_attention_layernorm.weight"),
          .router_down = at(gate + "down_proj.weight"),
          .router_down_bias = at(gate + "down_proj.bias"),
          .router_scale = at(gate + "router_states_scale"),
          .router_norm = at(gate + "router_mlp.norm.weight"),
          .fc1 = at(gate + "router_mlp.fc1.weight"),
          .fc1_bias = at(gate + "router_mlp.fc1.bias"),
          .fc2 = at(gate + "router_mlp.fc2.weight"),
          .fc2_bias = at(gate + "router_mlp.fc2.bias"),
          .router_out = at(gate + "router_mlp.out_proj.weight"),
          .balancing = at.tensor(gate + "balancing_biases").data<float>(),
          .gate_up = at.matrix("mlp.experts.gate_up_proj"),
          .down = at.matrix("mlp.experts.down_proj"),
          .after_mlp = at.merge("post_mlp_residual_scale."),
          .keys = state.k.data<bf16>(),
          .values = state.v.data<bf16>(),
          .conv_state = state.conv.data<bf16>(),
          .value_state = state.value.data<bf16>(),
          .window = config.window,
          .theta = theta};
}

// Whether the four projections of the stream lie one after another. Quantised ones have whole
// panels: the widths of the kernels are multiples of their rows.
bool projections_adjoin(const PlanMaker& at) {
  Tensors matrices;
  for (const char* name : {"q_proj", "k_proj", "v_proj_current", "v_proj_delayed"}) {
    const Weight weight = at.weight(format("self_attn.qkv_proj.{}.weight", name));
    matrices.push_back(weight.is_packed() ? weight.packed().blocks() : weight.tensor());
  }
  return joined_rows(matrices) > 0;
}

DecodeSizes decode_sizes(const Config& c, const TokenIds& tokens, const DecodeMemory& memory) {
  return {.hidden = static_cast<int>(c.hidden),
          .query_heads = static_cast<int>(c.query_heads),
          .kv_heads = static_cast<int>(c.kv_heads),
          .expert_hidden = static_cast<int>(c.expert_hidden),
          .experts = static_cast<int>(c.num_experts),
          .rotary_dim = static_cast<int>(c.rotary_dim()),
          .vocabulary = c.vocab_size,
          .usable = tokens.usable,
          .eps = static_cast<float>(c.norm_eps),
          .temperature = c.temperature,
          .block_tokens = memory.block_tokens,
          .table_width = memory.tables.cols()};
}

#endif

}  // namespace

std::unique_ptr<DecodeStep> Zaya1::decode_step(const DecodeMemory& memory) {
#if TEPHRA_GPU
  constexpr size_t kMostThetas = 4;
  const bool here = store_.device().kind == Device::Kind::gpu && store_.dtype() == DType::bf16;
  if (!here || !has_decode_kernels(config_, memory)) return nullptr;
  const PlanMaker model(store_, "model.");
  DecodePlan plan{.device = store_.device(),
                  .sizes = decode_sizes(config_, tokens_, memory),
                  .thetas = {},
                  .embedding = decode_matrix(embedding_),
                  .head = decode_matrix(head_weight_),
                  .final_norm = model("norm.weight"),
                  .entry_scale = model("input_hidden_states_scale"),
                  .entry_bias = model("input_hidden_states_bias"),
                  .layers = {},
                  .memory = memory};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const PlanMaker at(store_, format("model.layers.{}.", i));
    if (!projections_adjoin(at)) return nullptr;
    const int theta = theta_index(plan.thetas, config_.layers[i].rope_theta);
    plan.layers.push_back(decode_layer(at, config_.layers[i], memory.layers[i], theta));
  }
  if (plan.thetas.size() > kMostThetas) return nullptr;
  return make_decode_step(std::move(plan));
#else
  (void)memory;
  return nullptr;
#endif
}

}  // namespace tephra::zaya1
