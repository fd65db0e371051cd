// SPDX-License-Identifier: Apache-2.0
// Every kind of attention and feed-forward layer: the baselines against the reference, and small
// models of each against themselves: gradients, decoding, documents, threads, recomputation.
#include <gtest/gtest.h>

#include <cmath>

#include "tephra/autograd/tape.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tephra/infer/batch_generate.h"
#include "tephra/infer/verify.h"
#include "tephra/models/checkpoint.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch.h"

namespace tephra::variants_test {
namespace {

void expect_pass(const VerifyReport& report) {
  for (const Check& c : report.checks) {
    EXPECT_TRUE(c.pass) << c.name << ": max abs " << c.max_abs << ", max rel " << c.max_rel
                        << ", bound " << c.bound << " on " << to_text(c.metric) << ", worst "
                        << c.worst;
  }
}

Path golden(const std::string& kind) {
  return Path(TEPHRA_GOLDEN_DIR) / "attention" / ("attention-" + kind + ".safetensors");
}

TEST(Attention, BaselinesMatchTheReference) {
  for (const char* kind : {"mha", "gqa", "mla"}) {
    SCOPED_TRACE(kind);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const VerifyReport report = verify_attention(SafetensorsFile::open(golden(kind)), dtype);
      EXPECT_EQ(report.checks.size(), 4u);
      EXPECT_TRUE(report.ignored.empty()) << report.ignored[0];
      expect_pass(report);
    }
  }
}

// The reference with one thing changed must not pass, or say what is wrong.
TEST(Attention, ADifferenceIsNoticed) {
  const SafetensorsFile file = SafetensorsFile::open(golden("mla"));
  const Scratch scratch;
  const auto outcome = [&](const std::string& tensor, const Metadata& metadata) {
    std::vector<std::pair<std::string, Tensor>> entries;
    for (const TensorEntry& e : file.entries()) {
      entries.emplace_back(e.name, clone(file.tensor(e.name)));
      if (e.name == tensor) entries.back().second.set(3, entries.back().second.at(3) + 0.01);
    }
    write_safetensors(scratch / "changed.safetensors", entries, metadata);
    const SafetensorsFile changed = SafetensorsFile::open(scratch / "changed.safetensors");
    return verify_attention(changed, DType::f32).pass();
  };
  EXPECT_TRUE(outcome("", file.metadata()));
  for (const char* tensor : {"y", "dx", "grad.q_a_layernorm.weight", "weight.kv_b_proj.weight"}) {
    EXPECT_FALSE(outcome(tensor, file.metadata())) << tensor;
  }
  Metadata other = file.metadata();
  other["v_head_dim"] = "7";
  EXPECT_NE(message_of([&] { outcome("", other); }).find("expected shape [60, 10], got [56, 10]"),
            std::string::npos);
}

struct Variant {
  const char* name;
  const char* settings;  // beside the small sizes
};

void PrintTo(const Variant& v, std::ostream* out) { *out << v.name; }

const Variant kVariants[] = {
    {"cca", ""},
    {"cca_one_convolution", R"("cca_conv_count": 1, "cca_time0": 3)"},
    {"cca_no_convolution", R"("cca_conv_count": 0)"},
    {"cca_no_mean", R"("cca_qk_mean": false)"},
    {"cca_no_shift", R"("cca_value_shift": false, "attention_bias": true)"},
    {"cca_exp_temperature", R"("cca_temperature": "exp")"},
    {"cca_no_temperature", R"("cca_temperature": "none")"},
    {"cca_bare", R"("cca_conv_count": 0, "cca_qk_mean": false, "cca_value_shift": false,
                    "cca_temperature": "none")"},
    {"cca_4_to_4_heads", R"("num_key_value_heads": 4, "head_dim": 6,
                            "rope_parameters": {"partial_rotary_factor": 1.0}, "layer_types":
                            ["hybrid", "hybrid"])"},
    {"mha", R"("attention_type": "mha")"},
    {"gqa", R"("attention_type": "gqa")"},
    {"gqa_bias", R"("attention_type": "gqa", "attention_bias": true)"},
    {"mla", R"("attention_type": "mla")"},
    {"mla_direct_queries", R"("attention_type": "mla", "q_lora_rank": 0, "v_head_dim": 3,
                              "attention_bias": true)"},
    {"mla_bias", R"("attention_type": "mla", "attention_bias": true, "kv_lora_rank": 9)"},
    {"dense", R"("mlp_type": "dense")"},
    {"gqa_dense", R"("attention_type": "gqa", "mlp_type": "dense", "intermediate_size": 40)"},
    {"mla_dense_untied", R"("attention_type": "mla", "mlp_type": "dense",
                            "tie_word_embeddings": false)"},
};

Json config_of(const Variant& variant) {
  // Later keys replace earlier ones.
  Json config = Json::parse(R"({"model_type": "zaya", "vocab_size": 29, "hidden_size": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "moe_intermediate_size": 12, "num_experts": 3, "router_hidden_size": 6,
    "max_position_embeddings": 128, "layer_types": ["hybrid", "hybrid_sliding"],
    "sliding_window": 7, "eos_token_id": 1, "dtype": "float32"})",
                            "small");
  const Json own = Json::parse("{" + std::string(variant.settings) + "}", variant.name);
  for (const auto& [key, value] : own.object()) config[key] = value;
  return config;
}

class Variants : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override { write(config_of(GetParam())); }
  void write(const Json& config) const {
    const LogCapture quiet([](LogLevel, std::string_view) {});
    write_random_checkpoint(config, "small", scratch_.path() / "model", 5, RandomInit::lively,
                            {.force = true});
  }
  std::unique_ptr<Model> load(const LoadOptions& options) const {
    const LogCapture quiet([](LogLevel, std::string_view) {});
    return load_model(scratch_.path() / "model", options);
  }

 private:
  Scratch scratch_;
};

// Tokens [first, first + count) of a text.
Tensor ids_of(int64_t count, int64_t first = 0) {
  Tensor ids({count}, DType::i32);
  for (int64_t i = first; i < first + count; ++i) {
    ids.set(i - first, double(3 + (i * 7 + i * i) % 26));
  }
  return ids;
}

constexpr double kScale = 0.1;

// Documents of these lengths one after another; returns the flat gradients.
Tensor gradients(Model& model, const Tensor& ids, const std::vector<int64_t>& lengths,
                 const Recompute& recompute = {}) {
  model.parameters().clear_gradients();
  Tape tape(recompute);
  tape.backward(model.loss(model.forward(ids, Segments::packed(lengths)), ids, kScale));
  model.parameters().complete_gradients();
  return clone(model.parameters().flat_gradients());
}

// Central differences in f64 on a sample of every parameter.
TEST_P(Variants, HasTheGradientThatDifferencesGive) {
  const auto model = load({.dtype = DType::f64, .with_gradients = true});
  const Tensor ids = ids_of(17);
  const std::vector<int64_t> lengths{11, 6};
  const Tensor flat = gradients(*model, ids, lengths);
  ParameterStore& store = model->parameters();
  const auto loss = [&] {
    const NoGrad no_grad;
    return model->loss(model->forward(ids, Segments::packed(lengths)), ids, kScale).at(0);
  };
  for (size_t p = 0; p < store.specs().size(); ++p) {
    if (store.specs()[p].kind == ParameterKind::buffer) continue;
    const Tensor value = store.at(p).detach();
    for (uint64_t s = 0; s < 3; ++s) {
      const int64_t i = static_cast<int64_t>(philox({p, 0, 0}, s)[0]) % value.numel();
      const double x = value.at(i), h = 1e-5;
      value.set(i, x + h);
      const double up = loss();
      value.set(i, x - h);
      const double down = loss();
      value.set(i, x);
      const double got = flat.at(store.offset(p) + i);
      EXPECT_NEAR((up - down) / (2 * h), got, 1e-7 + 1e-6 * std::abs(got))
          << store.specs()[p].name << "[" << i << "]";
    }
  }
}

TEST_P(Variants, DecodesWithACacheAsWithout) {
  expect_pass(verify_itself(*load({}), 41, 3));
  expect_pass(verify_itself(*load({.dtype = DType::f64}), 23, 4));
}

// Without a router, which a last bit of bf16 can tip over to another expert.
TEST_P(Variants, DecodesInBf16WithACacheAsWithout) {
  Json config = config_of(GetParam());
  config["mlp_type"] = "dense";
  write(config);
  expect_pass(verify_itself(*load({.dtype = DType::bf16}), 41, 3));
}

TEST_P(Variants, GeneratesTheSameTokensInAnyBatch) {
  const auto model = load({});
  std::vector<GenerateRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    std::vector<int32_t> prompt;
    for (uint32_t t = 0; t < 1 + 9 * i; ++t) prompt.push_back(static_cast<int32_t>(3 + t % 20));
    requests.push_back({.prompt = prompt, .max_new_tokens = 12, .stream = i});
  }
  BatchOptions options;
  options.sampling.temperature = 1;
  const std::vector<BatchGeneration> together = batch_generate(*model, requests, options);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto alone = batch_generate(*model, std::span(&requests[i], 1), options);
    EXPECT_EQ(alone[0].tokens, together[i].tokens) << "request " << i;
  }
}

// A document's loss and gradients do not know that there are others beside it.
TEST_P(Variants, StartsAnewWithEachDocument) {
  const auto model = load({.dtype = DType::f64, .with_gradients = true});
  const Tensor together = gradients(*model, ids_of(25), {12, 1, 12});
  Tensor apart = gradients(*model, ids_of(12), {12});
  add_into(apart, gradients(*model, ids_of(1, 12), {1}));
  add_into(apart, gradients(*model, ids_of(12, 13), {12}));
  for (int64_t i = 0; i < together.numel(); ++i) {
    ASSERT_NEAR(together.at(i), apart.at(i), 1e-12) << i;
  }
}

// Padding at the left changes nothing but where a projection's bias speaks for the padded tokens:
// then CCA's convolutions hear it.
TEST_P(Variants, TakesPaddingForSilence) {
  const Json config = config_of(GetParam());
  const bool cca = !config.find("attention_type");
  if (cca && config.find("attention_bias")) return;
  const auto model = load({.dtype = DType::f64});
  const NoGrad no_grad;
  constexpr int64_t kTokens = 14, kPadding = 5;
  Tensor mask = full({2, kTokens}, DType::i64, 1);
  for (int64_t i = 0; i < kPadding; ++i) mask.set(kTokens + i, 0);
  const Tensor padded = model->forward(ids_of(2 * kTokens), Segments::padded(mask));
  const Tensor alone = model->forward(ids_of(kTokens - kPadding, kTokens + kPadding),
                                      Segments::batch(1, kTokens - kPadding));
  const Tensor same = padded.slice_rows(kTokens + kPadding, 2 * kTokens);
  for (int64_t i = 0; i < alone.numel(); ++i) ASSERT_NEAR(same.at(i), alone.at(i), 1e-12) << i;
}

TEST_P(Variants, GivesTheSameBitsOnAnyNumberOfThreadsAndRecomputed) {
  const auto model = load({.with_gradients = true});
  const Tensor ids = ids_of(60);
  const std::vector<int64_t> lengths{37, 23};
  set_num_threads(1);
  const Tensor one = gradients(*model, ids, lengths);
  EXPECT_TRUE(same_bits(gradients(*model, ids, lengths, Recompute::everything()), one));
  for (const int threads : {2, 3, 8, 16}) {
    set_num_threads(threads);
    EXPECT_TRUE(same_bits(gradients(*model, ids, lengths), one)) << threads << " threads";
  }
  set_num_threads(2);
}

// A new base reaches the layers without a window, and no others; the config says so.
TEST_P(Variants, TakesANewRotaryBase) {
  const auto model = load({.dtype = DType::f64});
  const Tensor ids = ids_of(20);
  const auto hidden = [&](Model& m) {
    const NoGrad no_grad;
    return m.forward(ids, Segments::batch(1, 20));
  };
  const Tensor before = hidden(*model);
  model->set_rope_theta(300);
  const Tensor after = hidden(*model);
  EXPECT_FALSE(same_bits(before, after));

  const Json config = model->config_json();
  const auto again = model_kind(config, "again").create(config, "again", {.dtype = DType::f64});
  for (size_t i = 0; i < again->parameters().specs().size(); ++i) {
    copy_into(again->parameters().at(i), model->parameters().at(i));
  }
  EXPECT_TRUE(same_bits(hidden(*again), after));
  model->set_rope_theta(5e6);
  EXPECT_TRUE(same_bits(hidden(*model), before));
}

INSTANTIATE_TEST_SUITE_P(Zaya1, Variants, testing::ValuesIn(kVariants),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace tephra::variants_test
