// SPDX-License-Identifier: Apache-2.0
// Every tensor of ZAYA1 by its published name, with its shape and how it starts. The starts are
// those of transformers except the temperature's, which is 0 there: a placeholder that would make
// all keys vanish. 1 is the exp(0) of the CCA paper (arXiv 2510.04476).
#include "tephra/models/zaya1/config.h"

namespace tephra::zaya1 {
namespace {

class List {
 public:
  explicit List(const Config& config) : config_(config) {}

  void add(std::string name, Shape shape, ParameterKind kind,
           Narrowing narrowing = Narrowing::quantised) {
    specs_.push_back({std::move(name), shape, kind, 0, config_.init_std, std::nullopt, narrowing});
  }
  void vector(std::string name, int64_t size, double start) {
    specs_.push_back({std::move(name), {size}, ParameterKind::vector, start, 0});
  }
  // A projection [out, in] with an optional bias.
  void linear(const std::string& name, int64_t out, int64_t in, bool bias,
              Narrowing narrowing = Narrowing::quantised) {
    add(name + ".weight", {out, in}, ParameterKind::matrix, narrowing);
    if (bias) vector(name + ".bias", out, 0);
  }

  // Projections of the same input stay adjacent, so that they can be one matrix product; their
  // biases follow.
  void projections(const std::string& at,
                   std::initializer_list<std::pair<const char*, int64_t>> out, bool bias) {
    for (const auto& [name, width] : out) {
      add(at + name + ".weight", {width, config_.hidden}, ParameterKind::matrix);
    }
    for (const auto& [name, width] : out) {
      if (bias) vector(at + name + ".bias", width, 0);
    }
  }

  void cca(const std::string& at) {
    const Config& c = config_;
    const std::string qkv = at + "qkv_proj.";
    const int64_t q = c.query_heads * c.head_dim, k = c.kv_heads * c.head_dim;
    const int64_t half = c.delayed_width();
    if (c.value_shift) {
      projections(
          qkv, {{"q_proj", q}, {"k_proj", k}, {"v_proj_current", half}, {"v_proj_delayed", half}},
          c.attention_bias);
    } else {
      projections(qkv, {{"q_proj", q}, {"k_proj", k}, {"v_proj", k}}, c.attention_bias);
    }
    const int64_t channels = c.conv_channels();
    if (c.conv_count >= 1) {
      add(qkv + "conv_qk_depthwise.weight", {channels, 1, c.conv0_width},
          ParameterKind::convolution, Narrowing::none);
      vector(qkv + "conv_qk_depthwise.bias", channels, 0);
    }
    if (c.conv_count >= 2) {
      add(qkv + "conv_qk_grouped.weight", {channels, c.head_dim, c.conv1_width},
          ParameterKind::convolution, Narrowing::stored);
      vector(qkv + "conv_qk_grouped.bias", channels, 0);
    }
    if (c.temperature != Temperature::none) {
      vector(at + "qk_norm.temp", c.kv_heads, c.temperature == Temperature::exp ? 0 : 1);
    }
    linear(at + "o_proj", c.hidden, q, c.attention_bias);
  }

  // As in Llama.
  void gqa(const std::string& at) {
    const Config& c = config_;
    const int64_t q = c.query_heads * c.head_dim, k = c.kv_heads * c.head_dim;
    projections(at, {{"q_proj", q}, {"k_proj", k}, {"v_proj", k}}, c.attention_bias);
    linear(at + "o_proj", c.hidden, q, c.attention_bias);
  }

  // As in DeepSeek-V3, which gives direct queries no bias.
  void mla(const std::string& at) {
    const Config& c = config_;
    const MlaDims& m = c.mla;
    const int64_t queries = c.query_heads * (m.nope_dim + m.rope_dim);
    if (m.q_rank > 0) {
      linear(at + "q_a_proj", m.q_rank, c.hidden, c.attention_bias);
      vector(at + "q_a_layernorm.weight", m.q_rank, 1);
      linear(at + "q_b_proj", queries, m.q_rank, false);
    } else {
      linear(at + "q_proj", queries, c.hidden, false);
    }
    linear(at + "kv_a_proj_with_mqa", m.kv_rank + m.rope_dim, c.hidden, c.attention_bias);
    vector(at + "kv_a_layernorm.weight", m.kv_rank, 1);
    linear(at + "kv_b_proj", c.query_heads * (m.nope_dim + m.value_dim), m.kv_rank, false,
           Narrowing::none);  // decoding absorbs it into queries and values
    linear(at + "o_proj", c.hidden, c.query_heads * m.value_dim, c.attention_bias);
  }

  void attention(const std::string& at) {
    switch (config_.attention) {
      case AttentionType::cca:
        return cca(at);
      case AttentionType::mha:
      case AttentionType::gqa:
        return gqa(at);
      case AttentionType::mla:
        return mla(at);
    }
  }

  void residual(const std::string& at) {
    vector(at + "hidden_states_scale", config_.hidden, 1);
    vector(at + "hidden_states_bias", config_.hidden, 0);
    vector(at + "residual_scale", config_.hidden, 1);
    vector(at + "residual_bias", config_.hidden, 0);
  }

  void router(const std::string& at, bool first) {
    const Config& c = config_;
    // A choice that flips changes everything after it: the router is never quantised.
    linear(at + "down_proj", c.router_hidden, c.hidden, true, Narrowing::stored);
    if (!first) vector(at + "router_states_scale", c.router_hidden, 1);
    vector(at + "router_mlp.norm.weight", c.router_hidden, 1);
    linear(at + "router_mlp.fc1", c.router_hidden, c.router_hidden, true, Narrowing::stored);
    linear(at + "router_mlp.fc2", c.router_hidden, c.router_hidden, true, Narrowing::stored);
    linear(at + "router_mlp.out_proj", c.num_experts + 1, c.router_hidden, false,
           Narrowing::stored);
    // At -1 the skip class, the last, cannot win against an expert whose bias is 0 or more.
    specs_.push_back(
        {at + "balancing_biases", {c.num_experts + 1}, ParameterKind::buffer, 0, 0, -1.0});
  }

  void experts(const std::string& at) {
    const Config& c = config_;
    add(at + "gate_up_proj", {c.num_experts, 2 * c.expert_hidden, c.hidden},
        ParameterKind::experts);
    add(at + "down_proj", {c.num_experts, c.hidden, c.expert_hidden}, ParameterKind::experts);
  }

  void dense(const std::string& at) {
    const Config& c = config_;
    projections(at, {{"gate_proj", c.dense_hidden}, {"up_proj", c.dense_hidden}}, false);
    linear(at + "down_proj", c.hidden, c.dense_hidden, false);
  }

  void layer(int64_t l) {
    const Config& c = config_;
    const std::string at = format("model.layers.{}.", l);
    vector(at + "input_layernorm.weight", c.hidden, 1);
    attention(at + "self_attn.");
    residual(at + "post_attention_residual_scale.");
    vector(at + "post_attention_layernorm.weight", c.hidden, 1);
    if (c.mlp == MlpType::moe) {
      router(at + "mlp.gate.", l == 0);
      experts(at + "mlp.experts.");
    } else {
      dense(at + "mlp.");
    }
    residual(at + "post_mlp_residual_scale.");
  }

  void all() {
    const Config& c = config_;
    add("model.embed_tokens.weight", {c.vocab_size, c.hidden}, ParameterKind::embedding);
    vector("model.input_hidden_states_scale", c.hidden, 1);
    vector("model.input_hidden_states_bias", c.hidden, 0);
    for (int64_t l = 0; l < c.num_layers; ++l) layer(l);
    vector("model.norm.weight", c.hidden, 1);
    if (!c.tied_embedding) add("lm_head.weight", {c.vocab_size, c.hidden}, ParameterKind::head);
    if (c.lm_head_bias) vector("lm_head.bias", c.vocab_size, 0);
  }

  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  const Config& config_;
  std::vector<ParameterSpec> specs_;
};

}  // namespace

std::vector<ParameterSpec> parameters(const Config& config) {
  List list(config);
  list.all();
  return list.take();
}

}  // namespace tephra::zaya1
