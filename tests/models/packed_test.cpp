// SPDX-License-Identifier: Apache-2.0
// Quantised model folders: written, read, compared with what they were made from, and refused when
// they are broken.
#include "tephra/models/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "tephra/autograd/tape.h"
#include "tephra/base/files.h"
#include "tephra/base/large_pages.h"
#include "tephra/device/memory.h"
#include "tephra/models/checkpoint.h"
#include "tephra/models/weight_memory.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"
#include "tests/support/small_pieces.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

WriteOptions quantised(PackedFormat format) {
  WriteOptions options;
  options.quantise = {format, format};
  return options;
}

// A lively random model in f32 or bf16.
void write_source(const Path& to, DType dtype) {
  WriteOptions options;
  options.dtype = dtype;
  write_random_checkpoint(preset_config("tiny"), "tiny", to, 3, RandomInit::lively, options);
}

Tensor logits_of(Model& model, int64_t tokens = 24) {
  const NoGrad no_grad;
  Tensor ids({tokens}, DType::i32);
  for (int64_t i = 0; i < tokens; ++i) {
    ids.set(i, static_cast<double>(3 + i * 7 % (model.tokens().usable - 3)));
  }
  const int64_t lengths[] = {tokens};
  return model.logits(model.forward(ids, Segments::packed(lengths)));
}

Tensor logits_of(const Path& folder, bool mapped = false) {
  const auto model = load_model(folder, {.mapped = mapped});
  return logits_of(*model);
}

double relative_distance(const Tensor& a, const Tensor& b) {
  double distance = 0, size = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    distance += std::pow(a.at(i) - b.at(i), 2);
    size += std::pow(b.at(i), 2);
  }
  return std::sqrt(distance / size);
}

class Quantised : public testing::Test {
 protected:
  Quantised() { write_source(scratch_ / "source", DType::bf16); }
  Path quantise(PackedFormat format) {
    const Path to = scratch_ / to_text(format);
    convert_checkpoint(scratch_ / "source", to, quantised(format));
    return to;
  }
  // config.json with one setting of its section changed.
  void set(const Path& folder, const char* key, Json value) {
    Json config = Json::parse(read_file(folder / "config.json"), "config.json");
    config["quantization_config"][key] = std::move(value);
    write_file(folder / "config.json", config.dump());
  }

  Scratch scratch_;
};

TEST_F(Quantised, SaysNearlyTheSameAsItsSource) {
  const Tensor source = logits_of(scratch_ / "source");
  EXPECT_LT(relative_distance(logits_of(quantise(PackedFormat::q8)), source), 0.05);
  EXPECT_LT(relative_distance(logits_of(quantise(PackedFormat::q4)), source), 0.6);
}

TEST_F(Quantised, IsReadWhereItLiesAndFitsItsExport) {
  for (const PackedFormat format : {PackedFormat::q8, PackedFormat::q4}) {
    const Path folder = quantise(format);
    const auto model = load_model(folder, {});
    const Weight head = model->parameters().weight("model.embed_tokens.weight");
    ASSERT_TRUE(head.is_packed());
    EXPECT_EQ(head.packed().format(), format);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(head.packed().blocks().raw()) % 64, 0u);
    EXPECT_FALSE(model->parameters().contains("model.embed_tokens.weight"));
    EXPECT_TRUE(model->parameters().contains("model.layers.0.mlp.gate.down_proj.weight"));

    WriteOptions wide;
    wide.dtype = DType::f32;
    const Path exported = scratch_ / ("export-" + to_text(format));
    convert_checkpoint(folder, exported, wide);
    // The same weights: what remains is the rounding of activations to 16 bits.
    EXPECT_LT(relative_distance(logits_of(*model), logits_of(exported)), 2e-4);
  }
}

TEST_F(Quantised, RoomForWeightsIsOnePieceInTheirOrder) {
  const auto specs =
      model_kind(preset_config("tiny"), "tiny").parameters(preset_config("tiny"), "tiny");
  const NamedWeights drawn =
      draw_packed_weights(specs, {PackedFormat::q4, PackedFormat::q8}, 1, kCpu);
  const std::byte* next = nullptr;
  for (const ParameterSpec& spec : specs) {
    ASSERT_EQ(drawn.contains(spec.name), spec.narrowing == Narrowing::quantised) << spec.name;
    if (!drawn.contains(spec.name)) continue;
    const Weight& weight = drawn.at(spec.name);
    const auto* at = static_cast<const std::byte*>(weight.packed().blocks().raw());
    EXPECT_TRUE(!next || at == next) << spec.name << " does not follow the one before";
    next = at + weight.bytes();
    const bool head = spec.kind == ParameterKind::embedding || spec.kind == ParameterKind::head;
    EXPECT_EQ(weight.packed().format(), head ? PackedFormat::q8 : PackedFormat::q4) << spec.name;
  }
}

TEST_F(Quantised, RandomModelsCanBeWrittenSoAtOnce) {
  WriteOptions options = quantised(PackedFormat::q4);
  options.dtype = DType::bf16;
  write_random_checkpoint(preset_config("tiny"), "tiny", scratch_ / "direct", 3, RandomInit::lively,
                          options);
  const Path folder = quantise(PackedFormat::q4);
  EXPECT_EQ(read_file(folder / "model.safetensors"),
            read_file(scratch_ / "direct" / "model.safetensors"));
  EXPECT_EQ(read_file(folder / "config.json"), read_file(scratch_ / "direct" / "config.json"));
}

// Many rows meet a float copy in the matrix library, which has an order of sums of its own.
TEST_F(Quantised, MappedBf16GivesTheBitsOfACopyToFewRows) {
  const auto copied = load_model(scratch_ / "source", {});
  const auto mapped = load_model(scratch_ / "source", {.mapped = true});
  EXPECT_FALSE(mapped->parameters().contains("model.embed_tokens.weight"));
  for (const int64_t tokens : {1, 5}) {
    EXPECT_TRUE(same_bits(logits_of(*mapped, tokens), logits_of(*copied, tokens))) << tokens;
  }
  EXPECT_LT(relative_distance(logits_of(*mapped, 24), logits_of(*copied, 24)), 1e-5);
}

TEST_F(Quantised, WeightsInMemoryGiveTheBitsOfMappedOnesAndNeedNoFile) {
  for (const Path& folder :
       {quantise(PackedFormat::q8), quantise(PackedFormat::q4), scratch_ / "source"}) {
    const Tensor expected = logits_of(folder, /*mapped=*/true);
    const auto model = load_model(folder, {.mapped = true, .place = WeightPlace::memory});
    const Weight head = model->parameters().weight("model.embed_tokens.weight");
    const Tensor& bytes = head.is_packed() ? head.packed().blocks() : head.tensor();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.raw()) % 64, 0u);
    fs::resize_file(folder / "model.safetensors", 0);  // what is still mapped would raise SIGBUS
    EXPECT_TRUE(same_bits(logits_of(*model), expected)) << folder;
  }
}

TEST(SmallPages, AreCopiedOnlyForThoseWhoAskForIt) {
  const Scratch scratch(fs::current_path());  // files in memory are not copied
  Json config = preset_config("tiny");
  config["vocab_size"] = 131072;  // some MiB of embedding
  const Path folder = scratch / "model";
  write_random_checkpoint(config, "tiny", folder, 3, RandomInit::lively,
                          quantised(PackedFormat::q8));
  const Path file = folder / "model.safetensors";
  write_in_small_pieces(file, read_file(file));
  {
    const auto model = load_model(folder, {.mapped = true});
    EXPECT_TRUE(verify_checkpoint(folder).problems.empty());
    EXPECT_EQ(copied_file_bytes(), 0);
  }
  if (MappedFile::open(file)->small_blocks().empty() || !has_large_pages() ||
      large_pages_come() == false) {
    GTEST_SKIP() << "the system does not tell, or has the file in large pages";
  }
  const Tensor expected = logits_of(folder, /*mapped=*/true);
  const auto model = load_model(folder, {.mapped = true, .copy_small_pages = true});
  EXPECT_GE(copied_file_bytes(), 2 * kLargePage);
  EXPECT_TRUE(same_bits(logits_of(*model), expected));
}

TEST(WeightPlaces, AreReadAndChosenByWhatIsFree) {
  EXPECT_EQ(parse_weight_place("auto"), WeightPlace::automatic);
  EXPECT_EQ(parse_weight_place("mapped"), WeightPlace::mapped);
  EXPECT_EQ(parse_weight_place("memory"), WeightPlace::memory);
  EXPECT_FALSE(parse_weight_place("disk").has_value());
  constexpr int64_t kMoreThanThereIs = int64_t{1} << 60;
  EXPECT_FALSE(belongs_in_memory(WeightPlace::automatic, kMoreThanThereIs));
  EXPECT_EQ(belongs_in_memory(WeightPlace::automatic, 1), has_large_pages());
  EXPECT_TRUE(belongs_in_memory(WeightPlace::memory, kMoreThanThereIs));
  EXPECT_FALSE(belongs_in_memory(WeightPlace::mapped, 1));
}

TEST_F(Quantised, RefusesWhatItCannotDo) {
  const Path folder = quantise(PackedFormat::q8);
  const Error narrow = error_of([&] { load_model(folder, {.dtype = DType::bf16}); });
  EXPECT_EQ(narrow.fault(), Fault::usage);
  EXPECT_NE(std::string(narrow.what())
                .find("expected inference in f32 on the cpu, or in f32 or "
                      "bf16 on a gpu, got bf16 on cpu"),
            std::string::npos)
      << narrow.what();
  EXPECT_EQ(error_of([&] { load_model(folder, {.with_gradients = true}); }).fault(), Fault::usage);
  const Error twice = error_of(
      [&] { convert_checkpoint(folder, scratch_ / "again", quantised(PackedFormat::q4)); });
  EXPECT_NE(std::string(twice.what()).find("is quantised already"), std::string::npos);
  const auto model = load_model(folder, {});
  const Tensor h = full({2, model->parameters()["model.norm.weight"].numel()}, DType::f32, 1);
  const Error loss = error_of([&] { model->loss(h, full({2}, DType::i32, 1), 1); });
  EXPECT_NE(std::string(loss.what()).find("quantised weight"), std::string::npos);
}

TEST_F(Quantised, ConfigsThatLieAreOneClearError) {
  const Path folder = quantise(PackedFormat::q8);
  const std::string whole = read_file(folder / "config.json");
  const auto complaint = [&](const char* key, Json value) {
    write_file(folder / "config.json", whole);
    set(folder, key, std::move(value));
    const Error error = error_of([&] { load_model(folder, {}); });
    EXPECT_EQ(error.fault(), Fault::data) << error.what();
    return std::string(error.what());
  };
  EXPECT_NE(complaint("bits", 5).find("bits: expected 8 or 4, got 5"), std::string::npos);
  EXPECT_NE(complaint("bits", "8").find("bits"), std::string::npos);
  EXPECT_NE(complaint("bits", 4).find("expected shape"), std::string::npos);
  EXPECT_NE(complaint("head_bits", 4).find("model.embed_tokens.weight"), std::string::npos);
  EXPECT_NE(complaint("group_size", 64).find("group_size: expected 32, got 64"), std::string::npos);
  EXPECT_NE(complaint("version", 2).find("expected version 1, got 2"), std::string::npos);
  EXPECT_NE(complaint("quant_method", "awq").find("expected"), std::string::npos);
}

TEST_F(Quantised, VerifyReadsTheScales) {
  const Path folder = quantise(PackedFormat::q4);
  EXPECT_TRUE(verify_checkpoint(folder).problems.empty());
  // The first tensor is packed, and begins with scales.
  const Path file = folder / "model.safetensors";
  std::string bytes = read_file(file);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint16_t nan = 0x7fc0;
  std::memcpy(bytes.data() + 8 + header, &nan, sizeof nan);
  write_file(file, bytes);
  const std::vector<std::string> problems = verify_checkpoint(folder).problems;
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("1 NaN and 0 infinite"), std::string::npos) << problems[0];
}

}  // namespace
}  // namespace tephra
