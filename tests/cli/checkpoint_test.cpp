// SPDX-License-Identifier: Apache-2.0
// The checkpoint commands as a person runs them: what they print, and how they end.
#include <gtest/gtest.h>

#include <filesystem>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

const std::string kGolden = TEPHRA_GOLDEN_DIR;

Ran checkpoint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "checkpoint");
  return Program{.path = TEPHRA_BINARY}(arguments);
}

Json json_of(const Ran& ran) { return Json::parse(ran.out, "stdout"); }

// Follows the keys of a path such as {"parameters", "total"}.
int64_t integer_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json* at = &json;
  for (const char* key : keys) {
    at = at->find(key);
    if (!at) throw std::runtime_error(std::string("no key ") + key);
  }
  return at->integer();
}

TEST(CheckpointInspect, GivesThePublishedFiguresOf8BAsJson) {
  const Ran ran = checkpoint({"inspect", TEPHRA_SOURCE_DIR "/configs/zaya1-8b.json", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json json = json_of(ran);
  EXPECT_EQ(integer_at(json, {"parameters", "total"}), 8'840'489'464);
  EXPECT_EQ(integer_at(json, {"parameters", "without_embedding"}), 8'303'356'408);
  EXPECT_EQ(integer_at(json, {"parameters", "active_without_embedding"}), 753'609'208);
  EXPECT_EQ(integer_at(json, {"kv_cache_bytes_per_token"}), 40'960);
  EXPECT_EQ(ran.err, "");
}

TEST(CheckpointInspect, PrintsTheSameForPeople) {
  const Ran ran = checkpoint({"inspect", TEPHRA_SOURCE_DIR "/configs/zaya1-8b.json"});
  for (const char* part : {"8,840,489,464", "753,609,208", "40.0 KiB", "8.75 GFLOP"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part;
  }
}

TEST(CheckpointInspect, NamesTheKindsOfLayers) {
  const Json json = json_of(checkpoint({"inspect", kGolden + "/zaya-tiny", "--json"}));
  EXPECT_EQ(json.find("model")->find("attention_type")->string(), "cca");
  EXPECT_EQ(json.find("model")->find("mlp_type")->string(), "moe");
  const Scratch scratch;
  const std::string config = (scratch / "config.json").string();
  write_file(config, R"({"model_type": "zaya", "attention_type": "mla", "mlp_type": "dense"})");
  const Ran ran = checkpoint({"inspect", config});
  for (const char* part :
       {"mla: 8 heads, queries 128 + 64 wide, values 128, latents 512 (queries: 1024)",
        "dense: SwiGLU of 2048", "kv_lora_rank"}) {
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  }
}

// One key changed, and the model is written, read, decoded and checked like any other.
TEST(CheckpointRandom, MakesEveryKindOfModel) {
  const Scratch scratch;
  const std::string tiny = read_file(TEPHRA_SOURCE_DIR "/configs/tiny-zaya1.json");
  for (const char* setting :
       {R"("attention_type": "mha")", R"("attention_type": "gqa")", R"("attention_type": "mla")",
        R"("cca_conv_count": 1)", R"("mlp_type": "dense")"}) {
    const std::string config = (scratch / "config.json").string();
    const std::string out = (scratch / "out").string();
    write_file(config, "{" + std::string(setting) + "," + tiny.substr(1));
    const Ran made = checkpoint({"random", "--config", config, "--out", out, "--force"});
    ASSERT_EQ(made.code, 0) << setting << made.err;
    EXPECT_EQ(checkpoint({"verify", out}).code, 0) << setting;
    const Program tephra{.path = TEPHRA_BINARY};
    const Ran checked = tephra({"verify", "--model", out, "--self-check"});
    EXPECT_EQ(checked.code, 0) << setting << checked.out << checked.err;
    const std::string again = (scratch / "again").string();
    const Ran exported = checkpoint({"export", "--from", out, "--to", again, "--force"});
    ASSERT_EQ(exported.code, 0) << setting << exported.err;
    for (const char* file : {"/config.json", "/model.safetensors"}) {
      EXPECT_EQ(read_file(again + file), read_file(out + file)) << setting;
    }
  }
}

TEST(VerifyAttention, NeedsNoModel) {
  const Program tephra{.path = TEPHRA_BINARY};
  const std::string file = kGolden + "/attention/attention-mla.safetensors";
  const Ran ran = tephra({"verify", "--golden", file, "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(json_of(ran).find("checks")->array().size(), 4u);
  EXPECT_EQ(tephra({"verify", "--golden", file, "--dtype", "bf16"}).code, 2);
  const Ran both = tephra({"verify", "--golden", file, "--model", kGolden + "/zaya-tiny"});
  EXPECT_EQ(both.code, 2);
  EXPECT_NE(both.err.find("holds its weights; leave out --model"), std::string::npos) << both.err;
  const Ran none = tephra({"verify", "--self-check"});
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("expected --model DIR, got none"), std::string::npos) << none.err;
}

TEST(Verify, NeedsTheChecksThatAreAskedFor) {
  const std::string model = kGolden + "/zaya-tiny";
  const auto refused = [&](std::vector<std::string> words, const std::string& says) {
    words.insert(words.begin(), "verify");
    const Ran ran = Program{.path = TEPHRA_BINARY}(words);
    EXPECT_EQ(ran.code, 2) << ran.out << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err.find("tephra verify: " + says), std::string::npos) << ran.err;
    EXPECT_TRUE(ran.err.ends_with("\n  try: tephra verify --help\n")) << ran.err;
  };
  // Whatever else passes, the engine's kernels are a GPU's.
  for (const std::vector<std::string>& other :
       {std::vector<std::string>{"--self-check"}, {"--golden", model + "/golden.safetensors"}}) {
    std::vector<std::string> words = {"--model", model, "--device", "cpu", "--engine"};
    words.insert(words.end(), other.begin(), other.end());
    refused(words, "--engine: expected a GPU");
  }
  refused({"--engine"}, "expected --model DIR, got none");
  refused({"--model", model}, "expected --golden FILE, --known NAME, --self-check or --engine");
}

TEST(CheckpointInspect, ShowsFilesOfAFolderAndTensorsOfAnyFile) {
  const Json wide = json_of(checkpoint({"inspect", kGolden + "/zaya-tiny-wide", "--json"}));
  EXPECT_EQ(wide.find("files")->array().size(), 6u);
  EXPECT_EQ(integer_at(wide, {"dtypes", "f32", "values"}),
            integer_at(wide, {"parameters", "total"}));
  const std::string file = kGolden + "/zaya-tiny/golden.safetensors";
  const Json other = json_of(checkpoint({"inspect", file, "--json"}));
  EXPECT_EQ(other.find("parameters"), nullptr);
  EXPECT_GT(other.find("tensors")->array().size(), 100u);
  EXPECT_NE(checkpoint({"inspect", file}).out.find("packed_logits"), std::string::npos);
}

TEST(CheckpointInspect, EndsByWhoseFaultItIs) {
  const Scratch scratch;
  EXPECT_EQ(checkpoint({"inspect", (scratch / "none").string()}).code, 2);
  write_file(scratch / "config.json", R"({"model_type": "llama"})");
  const Ran unknown = checkpoint({"inspect", (scratch / "config.json").string()});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_NE(unknown.err.find("known: zaya"), std::string::npos) << unknown.err;
  write_file(scratch / "a.safetensors", "not one");
  EXPECT_EQ(checkpoint({"inspect", (scratch / "a.safetensors").string()}).code, 3);
}

TEST(CheckpointVerify, PassesOnGoodFoldersAndListsWhatIsWrong) {
  EXPECT_EQ(checkpoint({"verify", kGolden + "/zaya-tiny-legacy"}).code, 0);
  const Scratch scratch;
  fs::copy(kGolden + "/zaya-tiny", scratch / "m");
  fs::copy_file(kGolden + "/zaya-tiny-sliding/config.json", scratch / "m/config.json",
                fs::copy_options::overwrite_existing);
  const Ran ran = checkpoint({"verify", (scratch / "m").string(), "--json"});
  EXPECT_EQ(ran.code, 3);
  const Json json = json_of(ran);
  EXPECT_FALSE(json.find("pass")->boolean());
  EXPECT_GT(json.find("problems")->array().size(), 5u);
  EXPECT_EQ(checkpoint({"verify", (scratch / "none").string()}).code, 2);
}

TEST(CheckpointConvert, LegacyComesOutNative) {
  const Scratch scratch;
  const std::string out = (scratch / "out").string();
  ASSERT_EQ(checkpoint({"import", "--from", kGolden + "/zaya-tiny-legacy", "--to", out}).code, 0);
  const Json json = json_of(checkpoint({"inspect", out, "--json"}));
  EXPECT_EQ(json.find("model")->find("layout")->string(), "native");
  EXPECT_EQ(checkpoint({"verify", out}).code, 0);

  const std::string shards = (scratch / "shards").string();
  const Ran exported = checkpoint({"export", "--from", out, "--to", shards, "--dtype", "bf16",
                                   "--max-shard-size", "20kB", "--quiet"});
  ASSERT_EQ(exported.code, 0) << exported.err;
  EXPECT_EQ(exported.out + exported.err, "");
  EXPECT_TRUE(fs::exists(scratch / "shards/model.safetensors.index.json"));
  EXPECT_EQ(checkpoint({"verify", shards}).code, 0);
}

TEST(CheckpointConvert, RefusesBadSizesAndBadTargets) {
  const std::vector<std::string> base = {"export", "--from", kGolden + "/zaya-tiny", "--to"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return checkpoint(more);
  };
  const Scratch scratch;
  const std::string out = (scratch / "out").string();
  EXPECT_EQ(with({out, "--max-shard-size", "many"}).code, 2);
  EXPECT_EQ(with({out, "--dtype", "fp4"}).code, 2);
  EXPECT_FALSE(fs::exists(out));
  write_file(scratch / "file", "");
  EXPECT_EQ(with({(scratch / "file").string()}).code, 2);
  EXPECT_EQ(with({"/proc/none"}).code, 2);
}

TEST(CheckpointRandom, WritesAModelOnceAndAgainOnlyByForce) {
  const Scratch scratch;
  const std::string out = (scratch / "out").string();
  const std::vector<std::string> words = {"random", "--config", "tiny", "--out", out};
  ASSERT_EQ(checkpoint(words).code, 0);
  EXPECT_EQ(checkpoint({"verify", out}).code, 0);
  const Ran again = checkpoint(words);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
  std::vector<std::string> forced = words;
  forced.insert(forced.end(), {"--force", "--seed", "3", "--init", "golden-like"});
  EXPECT_EQ(checkpoint(forced).code, 0);
  EXPECT_EQ(checkpoint({"verify", out}).code, 0);
}

TEST(CheckpointRandom, NamesTheConfigsItKnows) {
  const Scratch scratch;
  const std::string out = (scratch / "out").string();
  const Ran ran = checkpoint({"random", "--config", "zaya2", "--out", out});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("zaya1-8b, zaya1-74b, tiny"), std::string::npos) << ran.err;
  EXPECT_EQ(checkpoint({"random", "--config", "./none.json", "--out", out}).code, 2);
  write_file(scratch / "bad.json", R"({"model_type": "zaya", "hidden_size": -4})");
  const Ran bad = checkpoint({"random", "--config", (scratch / "bad.json").string(), "--out", out});
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.err.find("hidden_size"), std::string::npos) << bad.err;
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace tephra
