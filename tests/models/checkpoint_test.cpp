// SPDX-License-Identifier: Apache-2.0
// Model folders rewritten, made up and verified.
#include "tephra/models/checkpoint.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <map>

#include "tephra/base/signals.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

Path golden_folder(const std::string& name) { return Path(TEPHRA_GOLDEN_DIR) / name; }

std::map<std::string, std::string> contents(const Path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& item : fs::directory_iterator(folder)) {
    files[item.path().filename().string()] = read_file(item.path());
  }
  return files;
}

void expect_same_files(const Path& a, const Path& b) {
  const auto left = contents(a), right = contents(b);
  for (const auto& [name, bytes] : left) {
    ASSERT_TRUE(right.contains(name)) << name;
    EXPECT_TRUE(right.at(name) == bytes) << name;
  }
  EXPECT_EQ(left.size(), right.size());
}

// What a call complains about, as {fault, message}.
template <class F>
std::pair<Fault, std::string> complaint_of(F&& call) {
  try {
    call();
  } catch (const Error& e) {
    return {e.fault(), e.what()};
  }
  return {Fault::internal, "nothing"};
}

Json tiny_config() { return preset_config("tiny"); }

TEST(Registry, NamesTheKnownModels) {
  const auto message = [](const char* text) {
    return complaint_of([&] { model_kind(Json::parse(text, "config.json"), "config.json"); });
  };
  EXPECT_EQ(message(R"({"model_type": "llama"})").second,
            "config.json: model_type 'llama' is not supported; known: zaya");
  EXPECT_EQ(message(R"({"model_type": "zaya1_vl"})").second,
            "config.json: model_type 'zaya1_vl' is not supported (the vision-language layout); "
            "known: zaya");
  EXPECT_EQ(message(R"({"model_type": 3})").first, Fault::data);
  EXPECT_EQ(message(R"({})").first, Fault::data);
  EXPECT_EQ(complaint_of([] { preset_config("zaya2"); }).second,
            "'zaya2' is not the name of a config; known: zaya1-8b, zaya1-74b, tiny");
}

TEST(Registry, ConfigFilesOfTheRepositoryAreThePresets) {
  const std::pair<const char*, const char*> files[] = {
      {"zaya1-8b.json", "zaya1-8b"}, {"zaya1-74b.json", "zaya1-74b"}, {"tiny-zaya1.json", "tiny"}};
  for (const auto& [file, preset] : files) {
    const Path path = Path(TEPHRA_SOURCE_DIR) / "configs" / file;
    const Json config = Json::parse(read_file(path), file);
    const ModelKind& kind = model_kind(config, file);
    const Json named = preset_config(preset);
    EXPECT_EQ(kind.native_config(config, file).dump(), kind.native_config(named, file).dump());
    EXPECT_EQ(config.find("dtype")->string(), named.find("dtype")->string()) << file;
  }
}

TEST(Checkpoint, ExportThenImportIsByteIdentical) {
  for (const char* name :
       {"zaya-tiny", "zaya-tiny-wide", "zaya-tiny-bias-bf16", "zaya-tiny-legacy"}) {
    const Scratch scratch;
    convert_checkpoint(golden_folder(name), scratch / "out", {.max_shard_bytes = 100'000});
    convert_checkpoint(scratch / "out", scratch / "back", {.max_shard_bytes = 100'000});
    expect_same_files(scratch / "out", scratch / "back");
    EXPECT_TRUE(verify_checkpoint(scratch / "back").problems.empty()) << name;
  }
}

TEST(Checkpoint, LegacyImportsToTheFilesOfTheNativeModel) {
  const Scratch scratch;
  convert_checkpoint(golden_folder("zaya-tiny"), scratch / "native", {});
  convert_checkpoint(golden_folder("zaya-tiny-legacy"), scratch / "legacy", {});
  fs::remove(scratch / "native/generation_config.json");  // the legacy folder has none
  expect_same_files(scratch / "native", scratch / "legacy");
}

TEST(Checkpoint, ConversionKeepsEveryTensorsBytes) {
  const Scratch scratch;
  convert_checkpoint(golden_folder("zaya-tiny-wide"), scratch / "one", {});
  const TensorFolder before = TensorFolder::open(golden_folder("zaya-tiny-wide"));
  const TensorFolder after = TensorFolder::open(scratch / "one");
  EXPECT_EQ(after.files().size(), 1u);
  EXPECT_EQ(before.names().size(), after.names().size());
  for (const std::string& name : before.names()) {
    EXPECT_TRUE(same_bits(before.tensor(name), after.tensor(name))) << name;
  }
}

TEST(Checkpoint, ConversionChangesDtypeAndSaysSoInTheConfig) {
  const Scratch scratch;
  convert_checkpoint(golden_folder("zaya-tiny"), scratch / "bf16", {.dtype = DType::bf16});
  const TensorFolder after = TensorFolder::open(scratch / "bf16");
  for (const std::string& name : after.names()) EXPECT_EQ(after.entry(name).dtype, DType::bf16);
  EXPECT_EQ(open_model_folder(scratch / "bf16").config.find("dtype")->string(), "bfloat16");
}

TEST(Checkpoint, ConversionBringsTheTokenizerAlong) {
  const Scratch scratch;
  fs::copy(golden_folder("zaya-tiny"), scratch / "from");
  write_file(scratch / "from/tokenizer.json", "{}");
  write_file(scratch / "from/chat_template.jinja", "{{ messages }}");
  convert_checkpoint(scratch / "from", scratch / "to", {});
  EXPECT_EQ(read_file(scratch / "to/tokenizer.json"), "{}");
  EXPECT_EQ(read_file(scratch / "to/chat_template.jinja"), "{{ messages }}");
  EXPECT_TRUE(fs::exists(scratch / "to/generation_config.json"));
  EXPECT_FALSE(fs::exists(scratch / "to/golden.safetensors"));
}

TEST(Checkpoint, WritesNeitherOverAModelNorOverItsSource) {
  const Scratch scratch;
  convert_checkpoint(golden_folder("zaya-tiny"), scratch / "to", {});
  const auto before = contents(scratch / "to");
  const auto again = [&](bool force) {
    return complaint_of([&] {
      convert_checkpoint(golden_folder("zaya-tiny-sliding"), scratch / "to", {.force = force});
    });
  };
  EXPECT_EQ(again(false).first, Fault::usage);
  EXPECT_TRUE(contents(scratch / "to") == before);
  EXPECT_EQ(again(true).second, "nothing");
  EXPECT_TRUE(verify_checkpoint(scratch / "to").problems.empty());
  const auto onto_itself =
      complaint_of([&] { convert_checkpoint(scratch / "to", scratch / "to", {.force = true}); });
  EXPECT_EQ(onto_itself.first, Fault::usage);
  EXPECT_TRUE(verify_checkpoint(scratch / "to").problems.empty());
}

// Every shard is a file that is whole, but a part of a model is none.
TEST(Checkpoint, StoppedHalfwayLeavesNothingBehind) {
  install_signal_handlers();
  const Scratch scratch;
  const auto three_shards = [&] {
    const ModelSource source{
        tiny_config(),
        {{"a", DType::f32, {4}}, {"b", DType::f32, {4}}, {"c", DType::f32, {4}}},
        {}};
    write_model_folder(source, scratch / "new/folder", {.max_shard_bytes = 16}, [](size_t i) {
      if (i == 1) std::raise(SIGINT);
      return zeros({4}, DType::f32);
    });
  };
  EXPECT_EQ(complaint_of(three_shards).first, Fault::interrupted);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{});
  const auto random = [&] {
    write_random_checkpoint(tiny_config(), "tiny", scratch / "r", 1, RandomInit::standard, {});
  };
  EXPECT_EQ(complaint_of(random).first, Fault::interrupted);
  EXPECT_EQ(scratch.names(), std::vector<std::string>{});
  EXPECT_TRUE(take_interrupt());
}

TEST(Checkpoint, StoppedWhileItReplacesAModelLeavesThatOne) {
  install_signal_handlers();
  const Scratch scratch;
  convert_checkpoint(golden_folder("zaya-tiny"), scratch / "to", {});
  const auto before = contents(scratch / "to");
  for (const int64_t shard_bytes : {1 << 30, 16}) {
    const auto replace = [&] {
      const ModelSource source{
          tiny_config(),
          {{"a", DType::f32, {4}}, {"b", DType::f32, {4}}, {"c", DType::f32, {4}}},
          {}};
      write_model_folder(source, scratch / "to", {.max_shard_bytes = shard_bytes, .force = true},
                         [](size_t i) {
                           if (i == 1) std::raise(SIGINT);
                           return zeros({4}, DType::f32);
                         });
    };
    EXPECT_EQ(complaint_of(replace).first, Fault::interrupted);
    EXPECT_TRUE(contents(scratch / "to") == before);
    EXPECT_TRUE(take_interrupt());
  }
}

TEST(Checkpoint, ABadSourceLeavesNothingBehind) {
  const Scratch scratch;
  fs::copy(golden_folder("zaya-tiny"), scratch / "from");
  fs::copy_file(golden_folder("zaya-tiny-sliding") / "model.safetensors",
                scratch / "from/model.safetensors", fs::copy_options::overwrite_existing);
  const auto [fault, text] =
      complaint_of([&] { convert_checkpoint(scratch / "from", scratch / "to", {}); });
  EXPECT_EQ(fault, Fault::data);
  EXPECT_FALSE(fs::exists(scratch / "to"));
}

TEST(RandomCheckpoint, DependsOnTheSeedAloneAndNotOnShards) {
  const Scratch scratch;
  const auto write = [&](const char* name, uint64_t seed, int64_t shard) {
    write_random_checkpoint(tiny_config(), "tiny", scratch / name, seed, RandomInit::standard,
                            {.dtype = DType::f32, .max_shard_bytes = shard});
    return TensorFolder::open(scratch / name);
  };
  const TensorFolder a = write("a", 1, 1 << 30), b = write("b", 1, 500'000),
                     c = write("c", 2, 1 << 30);
  EXPECT_EQ(a.files().size(), 1u);
  EXPECT_GT(b.files().size(), 5u);
  for (const std::string& name : a.names()) {
    EXPECT_TRUE(same_bits(a.tensor(name), b.tensor(name))) << name;
  }
  const std::string matrix = "model.layers.0.self_attn.o_proj.weight";
  EXPECT_FALSE(same_bits(a.tensor(matrix), c.tensor(matrix)));
  EXPECT_TRUE(verify_checkpoint(scratch / "b").problems.empty());
  EXPECT_TRUE(fs::exists(scratch / "a/generation_config.json"));
}

TEST(RandomCheckpoint, EqualsAStoreThatIsInitialised) {
  const Scratch scratch;
  write_random_checkpoint(tiny_config(), "tiny", scratch / "a", 5, RandomInit::standard,
                          {.dtype = DType::f32});
  const ModelKind& kind = model_kind(tiny_config(), "tiny");
  ParameterStore store(kind.parameters(tiny_config(), "tiny"), DType::f32, kCpu, false);
  store.initialise(5);
  const TensorFolder folder = TensorFolder::open(scratch / "a");
  for (size_t i = 0; i < store.specs().size(); ++i) {
    const std::string& name = store.specs()[i].name;
    EXPECT_TRUE(same_bits(store.at(i), folder.tensor(name))) << name;
  }
}

TEST(RandomCheckpoint, LivelyWeightsLeaveNoTermOut) {
  const Scratch scratch;
  write_random_checkpoint(tiny_config(), "tiny", scratch / "a", 5, RandomInit::lively,
                          {.dtype = DType::f32});
  const TensorFolder folder = TensorFolder::open(scratch / "a");
  for (const std::string& name : folder.names()) {
    const Tensor x = folder.tensor(name);
    EXPECT_NE(x.at(0), x.at(1)) << name;
    EXPECT_NE(x.at(0), 0) << name;
  }
}

TEST(RandomCheckpoint, ConfigDecidesTheDtypeWhenNobodyElseDoes) {
  const Scratch scratch;
  Json config = tiny_config();
  const auto dtype_of = [&](const char* name) {
    write_random_checkpoint(config, "tiny", scratch / name, 0, RandomInit::standard, {});
    return TensorFolder::open(scratch / name).entry("model.norm.weight").dtype;
  };
  EXPECT_EQ(dtype_of("given"), DType::f32);
  config["dtype"] = "bfloat16";
  EXPECT_EQ(dtype_of("other"), DType::bf16);
  config["dtype"] = Json();
  EXPECT_EQ(dtype_of("none"), DType::bf16);
  config["torch_dtype"] = "float32";
  EXPECT_EQ(dtype_of("old"), DType::f32);
}

TEST(VerifyCheckpoint, CountsAndNamesValuesThatAreNotFinite) {
  const Scratch scratch;
  fs::create_directory(scratch / "m");
  const TensorFolder source = TensorFolder::open(golden_folder("zaya-tiny"));
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const std::string& name : source.names()) {
    tensors.emplace_back(name, clone(source.tensor(name)));
    if (name != "model.norm.weight") continue;
    tensors.back().second.set(3, std::nan(""));
    tensors.back().second.set(4, INFINITY);
    tensors.back().second.set(5, -INFINITY);
  }
  write_safetensors(scratch / "m/model.safetensors", tensors);
  fs::copy_file(golden_folder("zaya-tiny") / "config.json", scratch / "m/config.json");
  const FolderReport report = verify_checkpoint(scratch / "m");
  EXPECT_EQ(report.tensors, 99);
  EXPECT_EQ(report.values, 45277);
  ASSERT_EQ(report.problems.size(), 1u);
  EXPECT_TRUE(report.problems[0].starts_with("model.norm.weight in ")) << report.problems[0];
  EXPECT_TRUE(report.problems[0].ends_with("1 NaN and 2 infinite of 32 values"));
}

TEST(VerifyCheckpoint, ReportsEverythingThatIsBroken) {
  const Scratch scratch;
  fs::copy(golden_folder("zaya-tiny"), scratch / "m");
  write_file(scratch / "m/config.json", R"({"model_type": "zaya", "hidden_size": "32"})");
  write_file(scratch / "m/generation_config.json", "{");
  fs::resize_file(scratch / "m/model.safetensors", 1000);
  const FolderReport report = verify_checkpoint(scratch / "m");
  EXPECT_EQ(report.problems.size(), 2u);  // the tensors cannot be asked about the config

  fs::copy_file(golden_folder("zaya-tiny") / "model.safetensors", scratch / "m/model.safetensors",
                fs::copy_options::overwrite_existing);
  const FolderReport second = verify_checkpoint(scratch / "m");
  ASSERT_EQ(second.problems.size(), 2u);
  EXPECT_NE(second.problems[1].find("hidden_size"), std::string::npos) << second.problems[1];

  EXPECT_EQ(complaint_of([&] { verify_checkpoint(scratch / "none"); }).first, Fault::usage);
  fs::create_directory(scratch / "empty");
  EXPECT_EQ(complaint_of([&] { verify_checkpoint(scratch / "empty"); }).first, Fault::usage);
}

}  // namespace
}  // namespace tephra
