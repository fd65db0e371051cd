// SPDX-License-Identifier: Apache-2.0
// The settings that may differ from the published architecture: how they are read and written, and
// what they cost by the formulas of the CCA paper (arXiv 2510.04476, table II).
#include <gtest/gtest.h>

#include "tephra/base/log.h"
#include "tests/models/zaya1_config_text.h"

namespace tephra::zaya1::variants_test {
namespace {

TEST(Zaya1Variants, AreReadFromTheirKeys) {
  const Config cca = parse(R"({"cca_conv_count": 1, "cca_qk_mean": false,
                               "cca_value_shift": false, "cca_temperature": "exp"})");
  EXPECT_EQ(cca.conv_count, 1);
  EXPECT_FALSE(cca.qk_mean);
  EXPECT_FALSE(cca.value_shift);
  EXPECT_EQ(cca.temperature, Temperature::exp);
  const Config mla = parse(R"({"attention_type": "mla", "q_lora_rank": 0, "kv_lora_rank": 512,
    "qk_nope_head_dim": 96, "qk_rope_head_dim": 32, "v_head_dim": 80, "mlp_type": "dense",
    "intermediate_size": 8192})");
  EXPECT_EQ(mla.mla, (MlaDims{0, 512, 96, 32, 80}));
  EXPECT_EQ(parse(R"({"attention_type": "mla", "q_lora_rank": null})").mla.q_rank, 0);
  EXPECT_EQ(mla.mlp, MlpType::dense);
  EXPECT_EQ(mla.dense_hidden, 8192);
}

// One changed key is enough: other sizes follow from those of the model.
TEST(Zaya1Variants, TakeTheirSizesFromTheModel) {
  EXPECT_EQ(parse(R"({"attention_type": "mla"})").mla, (MlaDims{1024, 512, 128, 64, 128}));
  EXPECT_EQ(parse(R"({"attention_type": "gqa"})").kv_heads, 2);
  EXPECT_EQ(parse(R"({"attention_type": "mha"})").kv_heads, 8);
  EXPECT_EQ(parse(R"({"mlp_type": "dense"})").dense_hidden, 2048);
}

TEST(Zaya1Variants, MhaSaysThatItDoesNotReadTheKeyHeads) {
  std::string warning;
  const LogCapture capture([&](LogLevel, std::string_view text) { warning += text; });
  EXPECT_EQ(parse(R"({"attention_type": "mha", "num_key_value_heads": 4})").kv_heads, 8);
  EXPECT_EQ(warning,
            "config.json: num_key_value_heads is 4, but with attention_type 'mha' each of the 8 "
            "query heads has its own; taking 8");
}

TEST(Zaya1Variants, WarnOfKeysThatTheirKindDoesNotRead) {
  std::string warning;
  const LogCapture capture([&](LogLevel, std::string_view text) { warning += text; });
  const Config c = parse(R"({"attention_type": "gqa", "cca_qk_mean": false})");
  EXPECT_TRUE(c.qk_mean);
  EXPECT_EQ(warning,
            "config.json: cca_qk_mean is not read: it is for attention_type 'cca', and this is "
            "'gqa'");
}

constexpr const char* kVariants[] = {
    R"({})",
    R"({"cca_conv_count": 0})",
    R"({"cca_conv_count": 1, "cca_qk_mean": false, "cca_temperature": "exp"})",
    R"({"cca_value_shift": false, "cca_temperature": "none"})",
    R"({"attention_type": "mha"})",
    R"({"attention_type": "gqa", "mlp_type": "dense"})",
    R"({"attention_type": "mla", "kv_lora_rank": 100})",
    R"({"attention_type": "mla", "q_lora_rank": 0, "mlp_type": "dense", "intermediate_size": 7})",
};

TEST(Zaya1Variants, WrittenTheyParseBackToTheSame) {
  for (const char* text : kVariants) {
    const Config config = parse(text);
    EXPECT_EQ(parse_config(native_config(config), "again"), config) << text;
  }
}

TEST(Zaya1Variants, LeaveThePublishedConfigAsItIs) {
  const Json published = native_config(parse("{}"));
  for (const char* key : {"attention_type", "cca_conv_count", "cca_qk_mean", "cca_value_shift",
                          "cca_temperature", "q_lora_rank", "mlp_type", "intermediate_size"}) {
    EXPECT_FALSE(published.find(key)) << key;
  }
  const Json one = native_config(parse(R"({"cca_conv_count": 1})"));
  EXPECT_EQ(one.object().size(), published.object().size() + 1);
}

TEST(Zaya1Variants, SayWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"attention_type": "flash"})",
       "attention_type: expected 'cca', 'mha', 'gqa' or 'mla', got 'flash'"},
      {R"({"attention_type": 3})", "attention_type"},
      {R"({"mlp_type": "sparse"})", "mlp_type: expected 'moe' or 'dense', got 'sparse'"},
      {R"({"cca_conv_count": 3})", "cca_conv_count: expected a number from 0 to 2, got 3"},
      {R"({"cca_qk_mean": 1})", "cca_qk_mean"},
      {R"({"cca_temperature": "log"})",
       "cca_temperature: expected 'linear', 'exp' or 'none', got 'log'"},
      {R"({"attention_type": "mla", "q_lora_rank": -1})", "q_lora_rank: expected a number from 0"},
      {R"({"attention_type": "mla", "kv_lora_rank": 0})", "kv_lora_rank: expected a size from 1"},
      {R"({"attention_type": "mla", "qk_rope_head_dim": 5})",
       "qk_rope_head_dim: expected an even number, since pairs are rotated, got 5"},
      {R"({"attention_type": "gqa", "num_attention_heads": 3})",
       "3 query heads do not divide into groups over 2"},
      {R"({"mlp_type": "dense", "intermediate_size": 0})", "intermediate_size: expected a size"},
      {R"({"num_hidden_layers": 16000, "hidden_size": 1000000, "mlp_type": "dense",
           "intermediate_size": 1000000})",
       "parameters; expected under"},
      {R"({"num_hidden_layers": 16000, "hidden_size": 1000000, "attention_type": "mla",
           "num_attention_heads": 16000, "num_key_value_heads": 16000})",
       "parameters; expected under"},
      {R"({"cca": true, "rope_theta": 1e6, "attention_type": "mla"})",
       "attention_type: expected a native config.json for it"},
      {R"({"cca": true, "rope_theta": 1e6, "cca_conv_count": 1})",
       "cca_conv_count: expected a native config.json for it"},
  };
  for (const auto& [text, part] : cases) {
    const std::string got = complaint(text);
    EXPECT_NE(got.find(part), std::string::npos) << text << "\n  got: " << got;
  }
}

// One layer of width E, attention only.
constexpr int64_t kE = 2048, kS = 16384;

struct Cost {
  int64_t matrices = 0, convolutions = 0;  // weights
  int64_t kv_elements = 0;                 // of a sequence of kS
  double forward = 0;                      // FLOPs of a causal sequence of kS
  double decode = 0;                       // FLOPs of one token after kS
};

Cost cost(const std::string& settings) {
  const Config c = parse(R"({"hidden_size": 2048, "num_hidden_layers": 1, )" + settings + "}");
  Cost cost;
  int64_t others = c.vocab_size * c.hidden;  // the tied head
  for (const ParameterSpec& spec : parameters(c)) {
    const int64_t size = spec.shape.numel();
    const bool attention = spec.name.find(".self_attn.") != std::string::npos;
    if (spec.kind == ParameterKind::experts) others += size / c.num_experts;
    if (spec.kind == ParameterKind::matrix) (attention ? cost.matrices : others) += size;
    if (spec.kind == ParameterKind::convolution) cost.convolutions += size;
  }
  const ModelFigures f = figures(c, kS);
  cost.kv_elements = f.kv_cache_bytes / 2;
  cost.forward = (f.train_flops_per_token / 3 - 2.0 * double(others)) * double(kS);
  cost.decode = f.decode_flops_per_token - 2.0 * double(others);
  return cost;
}

// 4 E S^2 of the paper counts every pair; the causal half of them is S (S + 1) / 2.
double causal(double per_pair) { return per_pair * double(kS) * (double(kS) + 1) / 2; }

TEST(Zaya1Variants, MhaCostsWhatThePaperSays) {
  const Cost c = cost(R"("attention_type": "mha", "num_attention_heads": 16)");
  const double E = kE, S = kS;
  EXPECT_EQ(c.matrices, 4 * kE * kE);
  EXPECT_EQ(c.kv_elements, 2 * kS * kE);
  EXPECT_NEAR(c.forward, 8 * S * E * E + causal(4 * E), 1e-9 * c.forward);
  EXPECT_NEAR(c.decode, 8 * E * E + 4 * E * S, 1e-9 * c.decode);
}

TEST(Zaya1Variants, GqaCostsWhatThePaperSays) {
  const Cost c =
      cost(R"("attention_type": "gqa", "num_attention_heads": 16, "num_key_value_heads": 4)");
  const double E = kE, S = kS, G = 4;
  EXPECT_EQ(c.matrices, 2 * kE * kE + 2 * kE * kE / 4);
  EXPECT_EQ(c.kv_elements, 2 * kS * kE / 4);
  EXPECT_NEAR(c.forward, (1 + 1 / G) * 4 * S * E * E + causal(4 * E), 1e-9 * c.forward);
  EXPECT_NEAR(c.decode, (1 + 1 / G) * 4 * E * E + 4 * E * S, 1e-9 * c.decode);
}

// c_q = 2, c_kv = 4. The paper leaves out the rotated part, R = 64 wide, of queries and keys.
TEST(Zaya1Variants, MlaCostsWhatThePaperSays) {
  const Cost c = cost(R"("attention_type": "mla", "num_attention_heads": 16)");
  constexpr int64_t kHeads = 16, kR = 64;
  const int64_t rotated = kE / 2 * kHeads * kR + kE * kR;
  const double E = kE, S = kS;
  EXPECT_EQ(c.matrices, kE * kE + 3 * kE * kE / 4 + 2 * kE * kE / 2 + rotated);
  EXPECT_EQ(c.kv_elements, kS * kE / 4 + kS * kR);
  EXPECT_NEAR(c.forward,
              2 * S * E * E + 4 * S * E * E / 2 + 6 * S * E * E / 4 + 2 * S * double(rotated) +
                  causal(4 * E + 2.0 * kHeads * kR),
              1e-9 * c.forward);
  // Decoding with absorbed projections: 2 N_h (2 E / c_kv + R) for each cached latent.
  const double pair = 2 * kHeads * (2 * E / 4 + kR);
  EXPECT_NEAR(c.decode, 2.0 * double(c.matrices) + pair * S, 1e-9 * c.decode);
}

TEST(Zaya1Variants, CcaAndCcgqaCostWhatThePaperSays) {
  const double E = kE, S = kS;
  // 4 times: 4 query and 4 key/value heads of 128. The convolutions run on q and k side by side:
  // 2 e k_seq + (2 e)^2 k_ch / h weights with e = 512 and h = 8 heads.
  const Cost four = cost(R"("num_attention_heads": 4, "num_key_value_heads": 4)");
  EXPECT_EQ(four.matrices, 4 * kE * kE / 4);
  EXPECT_EQ(four.convolutions, 1024 * 2 + 1024 * 1024 * 2 / 8);
  EXPECT_EQ(four.kv_elements, 2 * kS * kE / 4);
  EXPECT_NEAR(four.forward,
              2 / 4.0 * 4 * S * E * E + causal(4 * E / 4) + 2 * S * double(four.convolutions),
              1e-9 * four.forward);
  // C1 = 2, C2 = 8: ZAYA1's 8 and 2 heads.
  const Cost ccgqa = cost(R"("num_attention_heads": 8, "num_key_value_heads": 2)");
  EXPECT_EQ(ccgqa.matrices, 2 * kE * kE / 2 + 2 * kE * kE / 8);
  EXPECT_EQ(ccgqa.convolutions, 1280 * 2 + 1280 * 1280 * 2 / 10);
  EXPECT_EQ(ccgqa.kv_elements, 2 * kS * kE / 8);
  EXPECT_NEAR(ccgqa.decode,
              (1 / 2.0 + 1 / 8.0) * 4 * E * E + 4 * E * S / 2 + 2 * double(ccgqa.convolutions),
              1e-9 * ccgqa.decode);
}

TEST(Zaya1Variants, WhatIsLeftOutCostsNothing) {
  const Cost all = cost(R"("cca_time0": 3)");
  EXPECT_EQ(cost(R"("cca_time0": 3, "cca_conv_count": 1)").convolutions, 1280 * 3);
  EXPECT_EQ(cost(R"("cca_conv_count": 0)").convolutions, 0);
  const Cost unshifted = cost(R"("cca_value_shift": false)");
  EXPECT_EQ(unshifted.matrices, all.matrices);

  const auto fixed = [](const char* text) { return figures(parse(text), 4096).fixed_state_bytes; };
  EXPECT_EQ(fixed(R"({"num_hidden_layers": 1, "cca_time0": 3})"), 4 * (3 * 1280 + 128));
  EXPECT_EQ(fixed(R"({"num_hidden_layers": 1, "cca_time0": 3, "cca_conv_count": 1})"),
            4 * (2 * 1280 + 128));
  EXPECT_EQ(fixed(R"({"num_hidden_layers": 1, "cca_conv_count": 0})"), 4 * 128);
  EXPECT_EQ(fixed(R"({"cca_conv_count": 0, "cca_value_shift": false})"), 0);
  EXPECT_EQ(fixed(R"({"attention_type": "mla"})"), 0);
}

TEST(Zaya1Variants, ADenseLayerIsMetWhole) {
  const Config c = parse(R"({"num_hidden_layers": 3, "mlp_type": "dense",
                             "intermediate_size": 5504})");
  const ModelFigures f = figures(c, 4096);
  EXPECT_EQ(f.active_without_embedding, f.parameters_without_embedding);
  int64_t dense = 0, matrices = 0;
  for (const ParameterSpec& spec : parameters(c)) {
    EXPECT_NE(spec.kind, ParameterKind::experts);
    EXPECT_NE(spec.kind, ParameterKind::buffer);
    if (spec.name.find(".mlp.") != std::string::npos) dense += spec.shape.numel();
    if (spec.kind == ParameterKind::matrix) matrices += spec.shape.numel();
  }
  EXPECT_EQ(dense, 3 * 3 * int64_t{5504} * 2048);
  const int64_t convolutions = 3 * (1280 * 2 + 1280 * 128 * 2);
  const double products = double(matrices + convolutions + 262272 * int64_t{2048});
  EXPECT_EQ(f.train_flops_per_token, 3 * (2 * products + 3 * 4096.0 * 2048.5));
}

// The optimizer goes by the kind: projections to Muon, the rest not.
TEST(Zaya1Variants, HaveTheKindsThatTheOptimizerNeeds) {
  for (const char* text : kVariants) {
    for (const ParameterSpec& spec : parameters(parse(text))) {
      if (spec.kind == ParameterKind::buffer) continue;
      const bool projection = spec.shape.ndim() == 2 && spec.name.find("embed") == spec.name.npos;
      EXPECT_EQ(spec.kind == ParameterKind::matrix, projection) << text << " " << spec.name;
      EXPECT_EQ(spec.kind == ParameterKind::vector, spec.shape.ndim() == 1) << spec.name;
    }
  }
  // exp(0) = 1: either form starts without effect.
  for (const auto& [form, start] : {std::pair("linear", 1.0), {"exp", 0.0}}) {
    const Config c = parse(format(R"({{"cca_temperature": "{}"}})", form));
    for (const ParameterSpec& spec : parameters(c)) {
      if (spec.name.ends_with(".temp")) {
        EXPECT_EQ(spec.init_mean, start) << form;
      }
    }
  }
}

}  // namespace
}  // namespace tephra::zaya1::variants_test
