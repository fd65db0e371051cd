// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tephra/base/log.h"
#include "tests/models/zaya1_config_text.h"

namespace tephra::zaya1 {
namespace {

Json golden_config(const std::string& name) { return config_of(Path(TEPHRA_GOLDEN_DIR) / name); }

TEST(Zaya1Config, AbsentKeysTakeTheValuesOfZaya18B) {
  const Config c = parse(R"({"model_type": "zaya"})");
  Config expected;
  expected.layers.assign(40, {0, 5e6});
  EXPECT_EQ(c, expected);
  EXPECT_EQ(c.conv_channels(), 1280);
  EXPECT_EQ(c.rotary_dim(), 64);
  EXPECT_EQ(c.delayed_width(), 128);
}

TEST(Zaya1Config, ReadsEveryNativeField) {
  const Config c = parse(R"({"model_type": "zaya", "vocab_size": 96, "hidden_size": 48,
    "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8,
    "moe_intermediate_size": 16, "num_experts": 7, "router_hidden_size": 12, "cca_time0": 3,
    "cca_time1": 4, "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "attention_bias": true,
    "lm_head_bias": true, "tie_word_embeddings": false, "initializer_range": 0.01,
    "layer_types": ["hybrid", "hybrid_sliding", "hybrid"], "sliding_window": 9,
    "rope_parameters": {"hybrid": {"rope_type": "default", "rope_theta": 1e6,
                                   "partial_rotary_factor": 0.25},
                        "hybrid_sliding": {"rope_theta": 2e4, "partial_rotary_factor": 0.25}},
    "pad_token_id": 3, "bos_token_id": 4, "eos_token_id": [5, 6], "attention_dropout": 0.1,
    "tephra_skip_rule": "identity", "tephra_pad_row_rule": "no_input_gradient"})");
  Config e;
  e.vocab_size = 96, e.hidden = 48, e.num_layers = 3, e.query_heads = 8, e.kv_heads = 4;
  e.head_dim = 8, e.expert_hidden = 16, e.num_experts = 7, e.router_hidden = 12;
  e.conv0_width = 3, e.conv1_width = 4, e.max_positions = 512, e.norm_eps = 1e-6;
  e.partial_rotary = 0.25, e.attention_bias = true, e.lm_head_bias = true;
  e.tied_embedding = false, e.init_std = 0.01, e.skip_rule = SkipRule::identity;
  e.pad_row_gets_no_input_gradient = true, e.pad_id = 3, e.bos_id = 4, e.eos_ids = {5, 6};
  e.layers = {{0, 1e6}, {9, 2e4}, {0, 1e6}};
  EXPECT_EQ(c, e);
}

TEST(Zaya1Config, WrittenNativelyItParsesBackToTheSame) {
  for (const char* name : {"zaya-tiny", "zaya-tiny-sliding", "zaya-tiny-wide",
                           "zaya-tiny-bias-bf16", "zaya-tiny-legacy"}) {
    Config config = parse_config(golden_config(name), "config.json");
    config.skip_rule = SkipRule::identity;
    config.pad_row_gets_no_input_gradient = true;
    config.eos_ids = {1, 7};
    const Json json = native_config(config);
    EXPECT_FALSE(is_legacy(json)) << name;
    const Json again = Json::parse(json.dump(2), "again");
    EXPECT_EQ(parse_config(again, "again"), config) << name;
  }
}

TEST(Zaya1Config, WritesTheFieldsThatTransformersWrites) {
  const Json golden = golden_config("zaya-tiny-sliding");
  const Json ours = native_config(parse_config(golden, "config.json"));
  for (const auto& [key, value] : golden.object()) {
    if (key == "transformers_version" || key == "dtype") continue;
    ASSERT_TRUE(ours.find(key)) << key;
    EXPECT_EQ(ours.find(key)->dump(), value.dump()) << key;
  }
}

TEST(Zaya1Config, LegacyAndNativeGiveTheSame) {
  EXPECT_TRUE(is_legacy(golden_config("zaya-tiny-legacy")));
  EXPECT_FALSE(is_legacy(golden_config("zaya-tiny")));
  EXPECT_EQ(parse_config(golden_config("zaya-tiny-legacy"), "legacy"),
            parse_config(golden_config("zaya-tiny"), "native"));
}

TEST(Zaya1Config, LegacyListsWinOverStaleScalars) {
  const Config c = parse(R"({"model_type": "zaya", "num_hidden_layers": 120,
    "zaya_layers": ["a", 4, "a", 4], "cca_num_q_heads": [8, 0, 8, 0], "num_attention_heads": 16,
    "num_query_groups_list": [2, 0, 2, 0], "num_query_groups": 16, "num_experts": 16,
    "ffn_hidden_size_list": [0, 48, 0, 48], "ffn_hidden_size": 4096,
    "zaya_mlp_expansion": [0, 24, 0, 24], "hidden_size": 256, "rope_theta": 1000000,
    "rope_scaling": false, "eos_token_id": 1})");
  EXPECT_EQ(c.num_layers, 2);
  EXPECT_EQ(c.query_heads, 8);
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 16);  // 256 / 16: of the uncompressed heads
  EXPECT_EQ(c.num_experts, 4);
  EXPECT_EQ(c.expert_hidden, 24);
  EXPECT_EQ(c.router_hidden, 24);
  EXPECT_EQ(c.layers, (std::vector<LayerConfig>{{0, 1e6}, {0, 1e6}}));
}

TEST(Zaya1Config, LegacySlidingWindowsCountTheCurrentTokenToo) {
  const Config c = parse(R"({"smoe_layers": ["a", 4, "a", 4, "a", 4], "rotary_base": 5000000,
    "rope_pct": 0.25, "smoe_mlp_expansion": 32, "swa_layers": [4096, 0, 0, 0, 4096, 0],
    "swa_rotary_base": 20000, "cca": true})");
  EXPECT_EQ(c.layers, (std::vector<LayerConfig>{{4097, 2e4}, {0, 5e6}, {4097, 2e4}}));
  EXPECT_EQ(c.partial_rotary, 0.25);
  EXPECT_EQ(c.router_hidden, 32);
}

TEST(Zaya1Config, WarnsThatTheStreamStaysInFp32) {
  std::string warning;
  const LogCapture capture([&](LogLevel, std::string_view text) { warning += text; });
  parse(R"({"cca": true, "rope_theta": 5e6, "residual_in_fp32": false})");
  EXPECT_NE(warning.find("residual_in_fp32"), std::string::npos) << warning;
}

struct BadConfig {
  const char* text;
  const char* complaint;  // is part of the message
};

TEST(Zaya1Config, SaysWhatIsWrong) {
  const BadConfig cases[] = {
      {R"({"hidden_size": "2048"})", "hidden_size"},
      {R"({"hidden_size": -1})", "hidden_size: expected a size from 1 to 1048576, got -1"},
      {R"({"hidden_size": 2048.5})", "hidden_size"},
      {R"({"num_attention_heads": 0})", "num_attention_heads: expected a size from 1"},
      {R"({"num_hidden_layers": 9000000000000000000})", "num_hidden_layers: expected a size"},
      {R"({"num_attention_heads": 7})", "7 query heads do not divide into groups over 2"},
      {R"({"num_key_value_heads": 1, "head_dim": 7})", "must be even"},
      {R"({"head_dim": 6})", "gives 3 rotated dimensions; expected an even number"},
      {R"({"num_experts_per_tok": 2})", "num_experts_per_tok: expected 1: a token meets one"},
      {R"({"hidden_act": "gelu"})", "hidden_act: expected 'silu', the only supported value, got"},
      {R"({"layer_types": ["hybrid"]})", "layer_types: expected one entry for each of 40 layers"},
      {R"({"num_hidden_layers": 1, "layer_types": ["mamba"]})",
       "layer_types: expected 'hybrid' or 'hybrid_sliding', got \"mamba\""},
      {R"({"num_hidden_layers": 1, "layer_types": [3]})", "layer_types: expected"},
      {R"({"num_hidden_layers": 1, "layer_types": "hybrid"})", "layer_types"},
      {R"({"num_hidden_layers": 1, "layer_types": ["hybrid_sliding"]})",
       "sliding_window: expected a size, since a layer is 'hybrid_sliding', got none"},
      {R"({"num_hidden_layers": 1, "layer_types": ["hybrid_sliding"], "sliding_window": 0})",
       "sliding_window: expected a size from 1"},
      {R"({"num_hidden_layers": 1, "layer_types": ["hybrid_sliding"], "sliding_window": 4,
           "rope_theta": 1e4})",
       "expected an object for each of 'hybrid' and 'hybrid_sliding'"},
      {R"({"rope_parameters": {"hybrid": {"rope_type": "yarn"}}})",
       "rope_type: expected 'default', the only supported value, got 'yarn'"},
      {R"({"rope_parameters": {"rope_type": "linear"}})", "rope_type: expected 'default'"},
      {R"({"rope_parameters": {"hybrid_sliding": {"rope_theta": 1}}})", "hybrid"},
      {R"({"rope_scaling": {"rope_type": "yarn"}})", "rope_scaling: expected null"},
      {R"({"rope_scaling": {"type": "linear", "factor": 2}})", "rope_scaling: expected null"},
      {R"({"rope_scaling": {"factor": 4}})", "rope_scaling: expected null"},
      {R"({"rope_scaling": true})", "rope_scaling: expected null"},
      {R"({"rope_theta": 0})", "rope_theta: expected a number above 0, got 0"},
      {R"({"partial_rotary_factor": 1.5})", "partial_rotary_factor: expected a share of at most 1"},
      {R"({"rms_norm_eps": -1e-5})", "rms_norm_eps: expected a number above 0"},
      {R"({"eos_token_id": "</s>"})", "eos_token_id: expected a token id, got a string"},
      {R"({"eos_token_id": [1, 262272]})", "eos_token_id: expected a token id below vocab_size"},
      {R"({"vocab_size": 200000000, "hidden_size": 1000000, "num_experts": 16000,
           "moe_intermediate_size": 1000000})",
       "parameters; expected under"},
      {R"({"tephra_skip_rule": "both"})", "tephra_skip_rule: expected zero or identity, got both"},
      {R"({"tephra_pad_row_rule": 1})", "tephra_pad_row_rule"},
      {R"({"vision_config": {}})", "vision-language layout (ZAYA1-VL), which is not supported"},
      {R"([])", "config.json"},
      // The legacy layout.
      {R"({"cca": true})", "rope_theta: expected the base of the rotary embedding, got none"},
      {R"({"cca": true, "rope_theta": 1e6, "num_hidden_layers": 81})",
       "num_hidden_layers: expected an even number of half-layers, got 81"},
      {R"({"cca": true, "rope_theta": 1e6, "clamp_temp": true})",
       "clamp_temp: expected false, the only supported value, got true"},
      {R"({"cca": false})", "cca: expected true, the only supported value, got false"},
      {R"({"cca": true, "zaya_use_eda": false})", "zaya_use_eda: expected true"},
      {R"({"cca": true, "add_bias_linear": true})", "add_bias_linear: expected false"},
      {R"({"cca": true, "activation_func": "gelu"})", "activation_func: expected 'swiglu'"},
      {R"({"cca": true, "moe_router_topk": 2})", "moe_router_topk: expected 1"},
      {R"({"cca": true, "ffn_hidden_size": 4095})", "ffn_hidden_size: expected an even size"},
      {R"({"zaya_layers": ["a", "a"]})",
       "\"a\" and a number of experts in turn, got \"a\" at entry 1"},
      {R"({"zaya_layers": ["a", 4, "a", 8]})", "the same number of experts in every layer, got 4"},
      {R"({"zaya_layers": ["a", 0]})", "zaya_layers: expected at least one expert"},
      {R"({"zaya_layers": []})", "zaya_layers: expected an even number of half-layers, got 0"},
      {R"({"zaya_layers": ["a", 4], "cca_num_q_heads": [8]})",
       "one entry for each of 2 half-layers"},
      {R"({"zaya_layers": ["a", 4], "cca_num_q_heads": [0, 0]})", "0 at entry 0"},
      {R"({"zaya_layers": ["a", 4], "rope_theta": 1e6, "swa_layers": [0, 8]})",
       "swa_layers: expected 0 on the expert half-layers, got 8 at entry 1"},
      {R"({"zaya_layers": ["a", 4, "a", 4], "rope_theta": 1e6, "swa_layers": [4, 0, 8, 0]})",
       "swa_layers: expected the same window in every sliding layer, got 4 and 8"},
  };
  for (const BadConfig& bad : cases) {
    const std::string got = complaint(bad.text);
    EXPECT_NE(got.find(bad.complaint), std::string::npos) << bad.text << "\n  got: " << got;
    EXPECT_NE(got.find("config.json"), std::string::npos) << got;
  }
}

}  // namespace
}  // namespace tephra::zaya1
