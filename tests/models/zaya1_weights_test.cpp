// SPDX-License-Identifier: Apache-2.0
// Checkpoints in every layout, whole and damaged.
#include <gtest/gtest.h>

#include <cmath>

#include "tephra/base/log.h"
#include "tests/models/zaya1_config_text.h"
#include "tests/support/scratch.h"

namespace tephra::zaya1 {
namespace {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

Path golden(const std::string& name) { return Path(TEPHRA_GOLDEN_DIR) / name; }

ParameterStore load(const Path& folder, const Json& json, DType dtype = DType::f32) {
  const LogCapture quiet([](LogLevel, std::string_view) {});
  const Config config = parse_config(json, "config.json");
  ParameterStore store(parameters(config), dtype, kCpu, false);
  load_weights(TensorFolder::open(folder), config, is_legacy(json), store);
  return store;
}

ParameterStore load(const Path& folder, DType dtype = DType::f32) {
  return load(folder, config_of(folder), dtype);
}

NamedTensors tensors_of(const Path& folder) {
  const TensorFolder source = TensorFolder::open(folder);
  NamedTensors tensors;
  for (const std::string& name : source.names()) {
    tensors.emplace_back(name, clone(source.tensor(name)));
  }
  return tensors;
}

Tensor& tensor_named(NamedTensors& tensors, const std::string& name) {
  for (auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
  }
  throw std::runtime_error("no tensor " + name);
}

void drop(NamedTensors& tensors, const std::string& name) {
  std::erase_if(tensors, [&](const auto& pair) { return pair.first == name; });
}

// What loading these tensors under zaya-tiny's config complains about.
std::string loading_complaint(const NamedTensors& tensors, const char* config = "zaya-tiny") {
  const Scratch scratch;
  write_safetensors(scratch / "model.safetensors", tensors);
  try {
    load(scratch / "", config_of(golden(config)));
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::data);
    return e.what();
  }
  return "nothing";
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\n  lacks: " << part;
}

TEST(Zaya1Weights, EveryGoldenCheckpointLoadsAndHoldsTheFilesValues) {
  for (const char* name :
       {"zaya-tiny", "zaya-tiny-sliding", "zaya-tiny-wide", "zaya-tiny-bias-bf16"}) {
    const ParameterStore store = load(golden(name));
    const TensorFolder folder = TensorFolder::open(golden(name));
    EXPECT_EQ(store.specs().size(), folder.names().size()) << name;
    for (const std::string& tensor : folder.names()) {
      EXPECT_TRUE(same_bits(store[tensor], to_dtype(folder.tensor(tensor), DType::f32)))
          << name << " " << tensor;
    }
  }
}

TEST(Zaya1Weights, LegacyEqualsNativeBitForBit) {
  const ParameterStore native = load(golden("zaya-tiny"));
  const ParameterStore legacy = load(golden("zaya-tiny-legacy"));
  for (size_t i = 0; i < native.specs().size(); ++i) {
    EXPECT_TRUE(same_bits(native.at(i), legacy.at(i))) << native.specs()[i].name;
  }
}

TEST(Zaya1Weights, PreReleaseSpellingsLoadToo) {
  NamedTensors tensors = tensors_of(golden("zaya-tiny-legacy"));
  for (auto& [name, tensor] : tensors) {
    if (const size_t at = name.find("zaya_block"); at != std::string::npos) {
      name.replace(at, 10, "smoe_block");
    }
  }
  EXPECT_EQ(loading_complaint(tensors, "zaya-tiny-legacy"), "nothing");
}

TEST(Zaya1Weights, ConvertIntoTheStoresDtypeAndKeepBuffersInFp32) {
  const ParameterStore store = load(golden("zaya-tiny"), DType::bf16);
  const TensorFolder folder = TensorFolder::open(golden("zaya-tiny"));
  const std::string matrix = "model.layers.0.self_attn.o_proj.weight";
  EXPECT_TRUE(same_bits(store[matrix], to_dtype(folder.tensor(matrix), DType::bf16)));
  const std::string buffer = "model.layers.0.mlp.gate.balancing_biases";
  EXPECT_TRUE(same_bits(store[buffer], folder.tensor(buffer)));
}

TEST(Zaya1Weights, HalfPrecisionSourcesLoad) {
  const Scratch scratch;
  NamedTensors tensors = tensors_of(golden("zaya-tiny"));
  for (auto& [name, tensor] : tensors) tensor = to_dtype(tensor, DType::f16);
  write_safetensors(scratch / "model.safetensors", tensors);
  const ParameterStore store = load(scratch / "", config_of(golden("zaya-tiny")));
  const Tensor& norm = store["model.norm.weight"];
  EXPECT_TRUE(same_bits(norm, to_dtype(tensor_named(tensors, "model.norm.weight"), DType::f32)));
}

// The fp8 release: any byte pattern is a weight, with one factor per output row.
NamedTensors with_fp8_experts() {
  NamedTensors tensors = tensors_of(golden("zaya-tiny"));
  NamedTensors scales;
  for (auto& [name, tensor] : tensors) {
    if (name.find(".mlp.experts.") == std::string::npos) continue;
    Tensor fp8(tensor.shape(), DType::fp8_e4m3);
    for (int64_t i = 0; i < fp8.numel(); ++i) {
      fp8.data<fp8_e4m3>()[i].bits = static_cast<uint8_t>(i % 0x7f + (i % 2) * 0x80);
    }
    Tensor scale({tensor.dim(0), tensor.dim(1), 1}, DType::f32);
    for (int64_t r = 0; r < scale.numel(); ++r) scale.set(r, 0.001 * static_cast<double>(r + 1));
    tensor = fp8;
    scales.emplace_back(name + ".weight_scale", scale);
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
  return tensors;
}

TEST(Zaya1Weights, Fp8ExpertsAreWidenedWithTheirRowScales) {
  const Scratch scratch;
  NamedTensors tensors = with_fp8_experts();
  write_safetensors(scratch / "model.safetensors", tensors);
  const ParameterStore store = load(scratch / "", config_of(golden("zaya-tiny")));
  const std::string name = "model.layers.1.mlp.experts.down_proj";
  const Tensor& fp8 = tensor_named(tensors, name);
  const Tensor& scale = tensor_named(tensors, name + ".weight_scale");
  for (int64_t i = 0; i < fp8.numel(); ++i) {
    const float expected =
        static_cast<float>(fp8.at(i)) * static_cast<float>(scale.at(i / fp8.cols()));
    ASSERT_EQ(store[name].at(i), expected) << i;
  }
}

TEST(Zaya1Weights, Fp8WithoutItsScaleOrElsewhereIsAnError) {
  NamedTensors tensors = with_fp8_experts();
  drop(tensors, "model.layers.1.mlp.experts.down_proj.weight_scale");
  expect_contains(loading_complaint(tensors),
                  "model.layers.1.mlp.experts.down_proj.weight_scale: missing");

  tensors = with_fp8_experts();
  Tensor& scale = tensor_named(tensors, "model.layers.0.mlp.experts.gate_up_proj.weight_scale");
  scale = zeros({4, 48}, DType::f32);
  expect_contains(loading_complaint(tensors), "expected shape [4, 48, 1], got [4, 48]");

  tensors = tensors_of(golden("zaya-tiny"));
  Tensor& o_proj = tensor_named(tensors, "model.layers.0.self_attn.o_proj.weight");
  o_proj = Tensor(o_proj.shape(), DType::fp8_e4m3);
  expect_contains(loading_complaint(tensors), "o_proj.weight");
  expect_contains(loading_complaint(tensors), "expected f32, bf16 or f16, got fp8_e4m3");
}

TEST(Zaya1Weights, NameWhatIsMissingUnknownOrMisshapen) {
  NamedTensors tensors = tensors_of(golden("zaya-tiny"));
  drop(tensors, "model.layers.1.self_attn.qk_norm.temp");
  tensors.emplace_back("model.layers.3.input_layernorm.weight", zeros({32}, DType::f32));
  tensor_named(tensors, "model.norm.weight") = zeros({31}, DType::f32);
  tensor_named(tensors, "model.layers.0.input_layernorm.weight") = zeros({32}, DType::i32);
  const std::string text = loading_complaint(tensors);
  expect_contains(text, "4 of the checkpoint's tensors do not fit its config.json");
  expect_contains(text, "model.layers.1.self_attn.qk_norm.temp: missing");
  expect_contains(text, "model.layers.3.input_layernorm.weight in ");
  expect_contains(text, "model.safetensors: not a tensor of this model");
  expect_contains(text, "expected shape [32], got [31]");
  expect_contains(text, "expected f32, bf16 or f16, got i32");
}

TEST(Zaya1Weights, ListAFewProblemsAndCountTheRest) {
  NamedTensors tensors = tensors_of(golden("zaya-tiny"));
  std::erase_if(tensors,
                [](const auto& pair) { return pair.first.starts_with("model.layers.2."); });
  const std::string text = loading_complaint(tensors);
  expect_contains(text, "32 of the checkpoint's tensors do not fit");
  expect_contains(text, "... and 27 more");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
}

TEST(Zaya1Weights, ATiedHeadMayBeStoredIfItIsTheEmbedding) {
  NamedTensors tensors = tensors_of(golden("zaya-tiny"));
  tensors.emplace_back("lm_head.weight", clone(tensor_named(tensors, "model.embed_tokens.weight")));
  EXPECT_EQ(loading_complaint(tensors), "nothing");
  tensors.back().second.set(5, 42);
  expect_contains(loading_complaint(tensors), "lm_head.weight in ");
  expect_contains(loading_complaint(tensors), "expected the values of model.embed_tokens.weight");
}

TEST(Zaya1Weights, RotaryTablesAreIgnored) {
  NamedTensors tensors = tensors_of(golden("zaya-tiny"));
  tensors.emplace_back("model.rotary_emb.hybrid_inv_freq", zeros({4}, DType::f32));
  EXPECT_EQ(loading_complaint(tensors), "nothing");
}

TEST(Zaya1Weights, WarnWhenTheSkipClassCanWin) {
  const Path folder = golden("zaya-tiny");
  const Config config = parse_config(config_of(folder), "config.json");
  ParameterStore store(parameters(config), DType::f32, kCpu, false);
  std::string warning;
  {
    const LogCapture capture([&](LogLevel, std::string_view text) { warning += text; });
    load_weights(TensorFolder::open(folder), config, false, store);
  }
  expect_contains(warning, "skip class is above -1 in 3 of 3 layers (first: layer 0)");

  const Scratch scratch;
  NamedTensors tensors = tensors_of(folder);
  for (auto& [name, tensor] : tensors) {
    if (name.ends_with("balancing_biases")) tensor.set(4, -1);
  }
  write_safetensors(scratch / "model.safetensors", tensors);
  warning.clear();
  const LogCapture capture([&](LogLevel, std::string_view text) { warning += text; });
  load_weights(TensorFolder::open(scratch / ""), config, false, store);
  EXPECT_EQ(warning, "");
}

}  // namespace
}  // namespace tephra::zaya1
