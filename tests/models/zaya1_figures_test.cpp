// SPDX-License-Identifier: Apache-2.0
// Counts and work against the published ones.
#include <gtest/gtest.h>

#include <cmath>

#include "tephra/models/zaya1/config.h"

namespace tephra::zaya1 {
namespace {

TEST(Zaya1Figures, Of8B) {
  const ModelFigures f = figures(preset_8b(), 4096);
  EXPECT_EQ(f.parameters, 8'840'489'464);
  EXPECT_EQ(f.parameters_without_embedding, 8'303'356'408);
  EXPECT_EQ(f.active_without_embedding, 753'609'208);
  EXPECT_EQ(f.kv_cache_bytes_per_token, 40'960);
  EXPECT_EQ(f.kv_cache_bytes, 40'960 * 4096);
  EXPECT_EQ(f.fixed_state_bytes, 430'080);
  EXPECT_NEAR(f.train_flops_per_token, 8.75e9, 0.005e9);
  // 2 x 1,289,762,816 weights of products, and 4 x 128 x 8 per key and layer.
  EXPECT_EQ(f.train_flops_per_token, 3 * (2 * 1'289'762'816.0 + 40 * 4096.0 * 2048.5));
  EXPECT_EQ(f.decode_flops_per_token, 2 * 1'289'762'816.0 + 40 * 4096.0 * 4096);
  EXPECT_EQ(parameters(preset_8b()).size(), 1283u);
}

TEST(Zaya1Figures, Of74B) {
  const ModelFigures f = figures(preset_74b(), 4096);
  EXPECT_EQ(f.parameters, 74'793'954'644);
  EXPECT_EQ(f.active_without_embedding, 4'262'014'292);
  EXPECT_EQ(f.kv_cache_bytes_per_token, 61'440);
  EXPECT_EQ(parameters(preset_74b()).size(), 1923u);
}

TEST(Zaya1Figures, WindowsBoundCacheAndAttention) {
  const ModelFigures f = figures(preset_74b(), 8194);
  EXPECT_EQ(f.kv_cache_bytes, 1024 * 30 * (int64_t{8194} + 4097));
  Config full = preset_74b();
  for (LayerConfig& layer : full.layers) layer.window = 0;
  const ModelFigures g = figures(full, 8194);
  EXPECT_EQ(g.decode_flops_per_token - f.decode_flops_per_token, 30 * 4.0 * 2048 * 4097);
  // Token t sees min(t, 4097) keys: half of the sequence at the mean 2049, half at 4097.
  EXPECT_DOUBLE_EQ(g.train_flops_per_token - f.train_flops_per_token,
                   3 * 30 * 4.0 * 2048 * (4097.5 - (2049 + 4097) / 2.0));
}

TEST(Zaya1Figures, CountAnUntiedHeadAndBiases) {
  Config c = preset_8b();
  const ModelFigures tied = figures(c, 4096);
  c.tied_embedding = false;
  c.lm_head_bias = true;
  c.attention_bias = true;
  const ModelFigures f = figures(c, 4096);
  const int64_t biases = 262272 + 40 * (1024 + 256 + 2 * 128 + 2048);
  EXPECT_EQ(f.parameters - tied.parameters, 262272 * int64_t{2048} + biases);
  EXPECT_EQ(f.train_flops_per_token, tied.train_flops_per_token);
}

TEST(Zaya1Parameters, StartAsTheyShould) {
  Config c;
  c.vocab_size = 32, c.hidden = 16, c.num_layers = 2, c.query_heads = 4, c.kv_heads = 2;
  c.head_dim = 8, c.expert_hidden = 8, c.num_experts = 3, c.router_hidden = 4;
  c.layers.assign(2, {0, 5e6});
  ParameterStore store(parameters(c), DType::f32, kCpu, false);
  store.initialise(7);
  const Tensor& biases = store["model.layers.1.mlp.gate.balancing_biases"];
  EXPECT_EQ(biases.at(0), 0);
  EXPECT_EQ(biases.at(2), 0);
  EXPECT_EQ(biases.at(3), -1);
  EXPECT_EQ(store["model.layers.0.self_attn.qk_norm.temp"].at(1), 1);
  EXPECT_EQ(store["model.layers.1.mlp.gate.router_states_scale"].at(0), 1);
  EXPECT_FALSE(store.contains("model.layers.0.mlp.gate.router_states_scale"));
  EXPECT_EQ(store["model.layers.0.post_mlp_residual_scale.residual_scale"].at(0), 1);
  EXPECT_EQ(store["model.layers.0.post_mlp_residual_scale.residual_bias"].at(0), 0);
  double sum = 0, squares = 0;
  const Tensor& gate_up = store["model.layers.0.mlp.experts.gate_up_proj"];
  for (int64_t i = 0; i < gate_up.numel(); ++i) {
    sum += gate_up.at(i);
    squares += gate_up.at(i) * gate_up.at(i);
  }
  const double n = static_cast<double>(gate_up.numel());
  EXPECT_NEAR(sum / n, 0, 0.003);
  EXPECT_NEAR(std::sqrt(squares / n), 0.02, 0.002);
}

TEST(Zaya1Parameters, ProjectionsThatMergeIntoOneProductAreAdjacent) {
  const std::vector<ParameterSpec> specs = parameters(preset_8b());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (!specs[i].name.ends_with("q_proj.weight")) continue;
    EXPECT_TRUE(specs[i + 1].name.ends_with("k_proj.weight"));
    EXPECT_TRUE(specs[i + 2].name.ends_with("v_proj_current.weight"));
    EXPECT_TRUE(specs[i + 3].name.ends_with("v_proj_delayed.weight"));
  }
}

}  // namespace
}  // namespace tephra::zaya1
