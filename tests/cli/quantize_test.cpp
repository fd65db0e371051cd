// SPDX-License-Identifier: Apache-2.0
// Quantising, comparing and timing as a person does it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/base/large_pages.h"
#include "tephra/device/memory.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"
#include "tests/support/small_pieces.h"

namespace tephra {
namespace {

const Path kTokenizer = Path(TEPHRA_GOLDEN_DIR) / "tokenizer-byte-level" / "tokenizer.json";

Ran tephra(const std::vector<std::string>& arguments) {
  return Program{.path = TEPHRA_BINARY}(arguments);
}

// A tiny random model and its 8-bit self.
struct Models {
  Scratch scratch;
  std::string source = scratch / "source", packed = scratch / "packed";

  explicit Models(const std::string& config = "tiny") {
    const Ran made = tephra(
        {"checkpoint", "random", "--config", config, "--out", source, "--init", "golden-like"});
    EXPECT_EQ(made.code, 0) << made.err;
    const Ran ran =
        tephra({"checkpoint", "quantize", "--model", source, "--bits", "8", "--out", packed});
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_NE(ran.err.find("written"), std::string::npos) << ran.err;
  }
};

TEST(CheckpointQuantize, TheOtherCommandsTakeTheFolder) {
  const Models m;
  const Ran inspect = tephra({"checkpoint", "inspect", m.packed});
  EXPECT_EQ(inspect.code, 0) << inspect.err;
  EXPECT_NE(inspect.out.find("q8, embedding and head q8; groups of 32"), std::string::npos);
  EXPECT_EQ(tephra({"checkpoint", "verify", m.packed}).code, 0);
  const Ran generate =
      tephra({"generate", "--model", m.packed, "--prompt-ids", "1,2,3", "--max-new-tokens", "3"});
  EXPECT_EQ(generate.code, 0) << generate.err;
}

TEST(CheckpointQuantize, RefusesOtherWidths) {
  const Models m;
  for (const char* bits : {"0", "3", "16"}) {
    const Ran ran = tephra(
        {"checkpoint", "quantize", "--model", m.source, "--bits", bits, "--out", m.scratch / "x"});
    EXPECT_EQ(ran.code, 2) << bits;
  }
  EXPECT_EQ(tephra({"checkpoint", "quantize", "--model", m.packed, "--out", m.scratch / "x"}).code,
            2);
  EXPECT_EQ(tephra({"generate", "--model", m.packed, "--prompt-ids", "1", "--dtype", "bf16"}).code,
            2);
}

TEST(EvalAgainst, SaysHowFarAModelIsAndKeepsItsLimits) {
  const Models m(std::string(TEPHRA_SOURCE_DIR) + "/tests/eval/config.json");
  for (const std::string& folder : {m.source, m.packed}) {
    std::filesystem::copy_file(kTokenizer, Path(folder) / "tokenizer.json");
  }
  const std::string text = m.scratch / "text.txt";
  write_file(text, "the quick brown fox jumps over the lazy dog, again and again and again");
  const std::vector<std::string> common = {"eval",   "--model", m.packed, "--against",
                                           m.source, "--text",  text,     "--json"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = common;
    all.insert(all.end(), more.begin(), more.end());
    return tephra(all);
  };
  const Ran ran = with({"--max-kl", "0.1"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_GT(json.find("tokens")->integer(), 5);
  EXPECT_GT(json.find("kl")->find("mean")->number(), 0);
  EXPECT_GT(json.find("top1_agreement")->number(), 0.8);
  EXPECT_EQ(with({"--max-kl", "0"}).code, 3);
  EXPECT_EQ(tephra({"eval", "--model", m.packed, "--text", text, "--max-kl", "1"}).code, 2);
}

TEST(VerifyKnown, TakesAFileAndRefusesAnotherModel) {
  const Models m;
  const std::string model = Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny";
  const std::string file = m.scratch / "known.json";
  write_file(file, R"({"input_ids": [1, 2, 3], "greedy": [4, 5, 6, 7], "margin": 0})");
  const Ran wrong = tephra({"verify", "--known", file, "--model", model, "--json"});
  EXPECT_EQ(wrong.code, 3);
  const Json json = Json::parse(wrong.out, "stdout");
  EXPECT_FALSE(json.find("pass")->boolean());
  EXPECT_EQ(json.find("notes")->array().size(), 2u);
  const Ran other = tephra({"verify", "--known", "zaya1-8b", "--model", model});
  EXPECT_EQ(other.code, 3);
  EXPECT_NE(other.err.find("is this zaya1-8b?"), std::string::npos) << other.err;
  EXPECT_EQ(tephra({"verify", "--known", "zaya9", "--model", model}).code, 2);
}

TEST(BenchDecode, DrawsQuantisedWeightsOfPresetsAlone) {
  const Models m;
  const Ran folder = tephra({"bench", "decode", "--model", m.packed, "--bits", "8"});
  EXPECT_EQ(folder.code, 2);
  EXPECT_NE(folder.err.find("a folder is taken as it is"), std::string::npos) << folder.err;
  const Ran width = tephra({"bench", "prefill", "--model", "zaya1-8b", "--bits", "3"});
  EXPECT_EQ(width.code, 2);
  EXPECT_NE(width.err.find("--bits: expected 8 or 4, got 3"), std::string::npos) << width.err;
}

TEST(Verify, ChecksQuantisedPresetsThatAreDrawn) {
  for (const char* bits : {"8", "4"}) {
    const Ran ran = tephra({"verify", "--model", "tiny", "--bits", bits, "--self-check", "--device",
                            "cpu", "--tokens", "12"});
    EXPECT_EQ(ran.code, 0) << ran.err << ran.out;
  }
}

TEST(Weights, InMemoryOrMappedSayTheSame) {
  const Models m;
  std::string said[2];
  double bytes[2];
  for (const int i : {0, 1}) {
    const char* place = i == 0 ? "mapped" : "memory";
    const Ran ran = tephra({"generate", "--model", m.packed, "--prompt-ids", "5,6,7",
                            "--max-new-tokens", "8", "--ignore-eos", "--weights", place});
    ASSERT_EQ(ran.code, 0) << ran.err;
    said[i] = ran.out;
    const Ran bench = tephra({"bench", "prefill", "--model", m.packed, "--tokens", "4",
                              "--ceiling-seconds", "0.01", "--weights", place, "--json"});
    ASSERT_EQ(bench.code, 0) << bench.err;
    bytes[i] = Json::parse(bench.out, "stdout").find("weights_in_memory_bytes")->number();
  }
  EXPECT_EQ(said[0], said[1]);
  EXPECT_GT(bytes[1], bytes[0]);
  const Ran wrong =
      tephra({"generate", "--model", m.packed, "--prompt-ids", "5", "--weights", "disk"});
  EXPECT_EQ(wrong.code, 2);
}

// A model of some MiB.
Path model_in_small_pages(const Scratch& scratch) {
  const Models tiny;
  Json config = Json::parse(read_file(Path(tiny.source) / "config.json"), "config.json");
  config["vocab_size"] = 131072;
  write_file(scratch / "config.json", config.dump(2));
  const Path folder = scratch / "model";
  const Ran made = tephra({"checkpoint", "random", "--config", scratch / "config.json", "--bits",
                           "8", "--out", folder});
  EXPECT_EQ(made.code, 0) << made.err;
  const Path file = folder / "model.safetensors";
  write_in_small_pieces(file, read_file(file));
  return folder;
}

TEST(BenchPrefill, CountsCopiesOfSmallPagesAsWeightsInMemory) {
  const Scratch scratch(std::filesystem::current_path());  // files in memory are not copied
  const Path folder = model_in_small_pages(scratch);
  const bool copied = has_large_pages() && large_pages_come() != false &&
                      MappedFile::open(folder / "model.safetensors")->small_blocks().size() > 1;
  if (!copied) GTEST_SKIP() << "the system does not tell, or has the file in large pages";
  const Ran bench = tephra({"bench", "prefill", "--model", folder, "--tokens", "4",
                            "--ceiling-seconds", "0.01", "--weights", "mapped", "--json"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_GE(Json::parse(bench.out, "stdout").find("weights_in_memory_bytes")->number(),
            2 * kLargePage);
}

TEST(BenchDecode, CountsBytesAndGivesTheShare) {
  const Models m;
  const Ran ran = tephra({"bench", "decode", "--model", m.packed, "--tokens", "2", "--context", "4",
                          "--ceiling-seconds", "0.05", "--cold", "--profile", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_GT(json.find("cold")->find("first_token_seconds")->number(), 0);
  EXPECT_GE(json.find("cold")->find("first_token_seconds")->number(),
            json.find("cold")->find("load_seconds")->number());
  if (const Json* pages = json.find("weight_pages")) {  // not every system tells
    EXPECT_GT(pages->find("mapped_bytes")->number(), 0);
    EXPECT_LE(pages->find("large_bytes")->number(), pages->find("mapped_bytes")->number());
  }
  const Json::Array& disk = json.find("cold")->find("disk_gb_per_s")->array();
  ASSERT_EQ(disk.size(), 2u);
  for (const Json& speed : disk) EXPECT_GT(speed.number(), 0);
  const Json* bytes = json.find("bytes_per_step");
  ASSERT_NE(bytes, nullptr);
  EXPECT_GT(bytes->find("quantised")->number(), 0);
  EXPECT_GT(bytes->find("other_weights")->number(), 0);
  EXPECT_GT(json.find("share")->find("median")->number(), 0);
  EXPECT_GE(json.find("read_ceiling_gb_per_s")->find("best")->number(),
            json.find("read_ceiling_gb_per_s")->find("median")->number());
  const std::vector<Json>& steps = json.find("steps")->array();
  ASSERT_EQ(steps.size(), 2u);  // the share is the upper of the two
  double share = 0;
  for (const Json& step : steps) {
    share = std::max(
        share, step.find("gb_per_s")->number() / step.find("read_ceiling_gb_per_s")->number());
  }
  EXPECT_NEAR(json.find("share")->find("median")->number(), share, 1e-3 * share);
  // All of a step's time is somewhere.
  double seconds = 0;
  for (const Json& kernel : json.find("kernels")->array()) {
    seconds += kernel.find("seconds")->number();
  }
  EXPECT_GT(json.find("kernels")->array().size(), 10u);
  EXPECT_GE(seconds * json.find("tokens_per_s")->find("best")->number(), 0.99);
}

TEST(BenchPrefill, CountsWorkAndGivesTheShare) {
  const Models m;
  const Ran ran = tephra({"bench", "prefill", "--model", m.packed, "--tokens", "32",
                          "--ceiling-seconds", "0.05", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = Json::parse(ran.out, "stdout");
  EXPECT_GT(json.find("flops")->number(), 0);
  EXPECT_GT(json.find("share")->find("median")->number(), 0);
}

}  // namespace
}  // namespace tephra
