// SPDX-License-Identifier: Apache-2.0
// The tokenizer commands and text generation, from the command line.
#include <gtest/gtest.h>

#include <filesystem>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

const std::string kByteLevel = std::string(TEPHRA_GOLDEN_DIR) + "/tokenizer-byte-level";

Ran run_tephra(std::vector<std::string> words, std::string input = {}) {
  return Program{.path = TEPHRA_BINARY, .input = std::move(input)}(std::move(words));
}

TEST(TokenizerCommand, EncodesAndDecodes) {
  const Ran encoded =
      run_tephra({"tokenizer", "encode", "--tokenizer", kByteLevel, "Hello, world!"});
  EXPECT_EQ(encoded.code, 0) << encoded.err;
  EXPECT_EQ(encoded.out, "48,394,344,20,364,272,84,76,9\n");
  const Ran decoded = run_tephra({"tokenizer", "decode", "--tokenizer", kByteLevel}, encoded.out);
  EXPECT_EQ(decoded.out, "Hello, world!");
}

TEST(TokenizerCommand, LeavesSpecialTokensOutUnlessAsked) {
  const std::vector<std::string> words = {"tokenizer", "decode", "--tokenizer",
                                          kByteLevel,  "2,48",   "6"};
  EXPECT_EQ(run_tephra(words).out, "H");
  std::vector<std::string> special = words;
  special.push_back("--special");
  EXPECT_EQ(run_tephra(special).out, "<bos>H<|end|>");
}

TEST(TokenizerCommand, NamesAnIdThatDoesNotExist) {
  const Ran ran = run_tephra({"tokenizer", "decode", "--tokenizer", kByteLevel, "5,1024"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_NE(ran.err.find("id 1 is 1024; the tokenizer has no such token, ids go to 1023"),
            std::string::npos)
      << ran.err;
}

TEST(TokenizerCommand, ChecksVectorsAndNamesTheFirstDifference) {
  const Scratch scratch;
  const std::string vectors = kByteLevel + "/vectors.json";
  const Ran good =
      run_tephra({"tokenizer", "check", "--tokenizer", kByteLevel, "--vectors", vectors});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.out, "all 60 vectors agree\n");

  const std::string wrong = (scratch / "wrong.json").string();
  write_file(wrong, R"([{"text": "H", "ids": [48], "decoded": "H"}, {"text": "H", "ids": [49]}])");
  const Ran bad =
      run_tephra({"tokenizer", "check", "--tokenizer", kByteLevel, "--vectors", wrong, "--json"});
  EXPECT_EQ(bad.code, 3);
  EXPECT_NE(bad.err.find("[1]: encode 'H': token 0: expected 49, got 48"), std::string::npos)
      << bad.err;
  EXPECT_FALSE(Json::parse(bad.out, "stdout").find("pass")->boolean());
}

TEST(TokenizerCommand, SaysWhenThereIsNoTokenizer) {
  const Scratch scratch;
  const auto complaint = [&](const std::string& path) {
    const Ran ran = run_tephra({"tokenizer", "encode", "--tokenizer", path, "text"});
    EXPECT_EQ(ran.code, 2);
    return ran.err.substr(0, ran.err.find('\n'));
  };
  const std::string folder = scratch.path().string();
  EXPECT_EQ(complaint(folder), "tephra tokenizer encode: " + folder +
                                   "/tokenizer.json: is missing; expected a tokenizer.json");
  EXPECT_EQ(complaint(folder + "x"),
            "tephra tokenizer encode: " + folder + "x: does not exist; expected a tokenizer.json");
}

TEST(TokenizerCommand, TrainsATokenizerThatTheOthersUse) {
  const Scratch scratch;
  const std::string corpus = std::string(TEPHRA_SOURCE_DIR) + "/ARCHITECTURE.md";
  for (const char* form : {"byte-level", "gemma", "llama"}) {
    const std::string out = (scratch / form).string();
    const Ran trained =
        run_tephra({"tokenizer", "train", "--form", form, "--vocab-size", "700", "--special-token",
                    "<|user|>", "--add-bos", "--out", out, corpus, "--json", "--quiet"});
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_EQ(Json::parse(trained.out, "stdout").find("vocab_size")->integer(), 700);
    const Ran ids =
        run_tephra({"tokenizer", "encode", "--tokenizer", out, "--special", "<|user|>é"});
    EXPECT_TRUE(ids.out.starts_with("2,4,")) << ids.out;
    const Ran text = run_tephra({"tokenizer", "decode", "--tokenizer", out}, ids.out);
    EXPECT_EQ(text.out, std::string("é"));
  }
  const Ran missing =
      run_tephra({"tokenizer", "train", "--out", scratch.path().string(), "none.txt"});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("none.txt: expected a text file"), std::string::npos) << missing.err;
}

TEST(TokenizerCommand, BenchGivesARateForEveryRow) {
  const Ran ran = run_tephra({"bench", "tokenizer", "--tokenizer", kByteLevel, "--seconds", "0",
                              "--line-mb", "1", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const Json out = Json::parse(ran.out, "stdout");
  EXPECT_EQ(out.find("rows")->array().size(), 7u);
  for (const Json& row : out.find("rows")->array()) {
    EXPECT_GT(row.find("mb_per_s")->number(), 0);
    EXPECT_GT(row.find("tokens")->integer(), 0);
  }
}

// A small random model with a tokenizer of its size.
class TextGeneration : public testing::Test {
 protected:
  void SetUp() override {
    Json config = Json::parse(read_file(Path(TEPHRA_SOURCE_DIR) / "configs/tiny-zaya1.json"), "c");
    config["vocab_size"] = 1024;
    write_file(scratch_ / "config.json", config.dump());
    const Ran made = run_tephra({"checkpoint", "random", "--config",
                                 (scratch_ / "config.json").string(), "--out", model_.string()});
    ASSERT_EQ(made.code, 0) << made.err;
  }
  void add_tokenizer() {
    std::filesystem::copy_file(Path(kByteLevel) / "tokenizer.json", model_ / "tokenizer.json");
  }
  Ran generate(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate", "--model",          model_.string(),
                                      "--quiet",  "--max-new-tokens", "24"};
    words.insert(words.end(), more.begin(), more.end());
    return run_tephra(words);
  }

  Scratch scratch_;
  Path model_ = scratch_ / "model";
};

TEST_F(TextGeneration, StreamsTextAndStopsBeforeAStopString) {
  add_tokenizer();
  const std::vector<std::string> prompt = {"--prompt", "Hello, world", "--temperature",
                                           "0.9",      "--seed",       "4"};
  const Ran plain = generate(prompt);
  ASSERT_EQ(plain.code, 0) << plain.err;
  const std::string text = plain.out.substr(0, plain.out.size() - 1);
  ASSERT_GT(text.size(), 12u);

  std::vector<std::string> with_json = prompt;
  with_json.push_back("--json");
  const Json whole = Json::parse(generate(with_json).out, "stdout");
  EXPECT_EQ(whole.find("text")->string(), text);
  EXPECT_EQ(whole.find("finish_reason")->string(), "length");

  // A stop string of ASCII from the middle of what it says.
  size_t at = text.size() / 3;
  while (static_cast<unsigned char>(text[at]) >= 0x80 ||
         static_cast<unsigned char>(text[at + 1]) >= 0x80)
    ++at;
  const std::string stop = text.substr(at, 2);
  with_json.insert(with_json.end(), {"--stop", "never said", "--stop=" + stop});
  const Json stopped = Json::parse(generate(with_json).out, "stdout");
  EXPECT_EQ(stopped.find("text")->string(), text.substr(0, text.find(stop)));
  EXPECT_EQ(stopped.find("finish_reason")->string(), "stop");
  EXPECT_EQ(stopped.find("stop")->string(), stop);
}

TEST_F(TextGeneration, ChatsThroughTheModelsTemplate) {
  add_tokenizer();
  const std::vector<std::string> chat = {"--chat", "--prompt", "Hi", "--json"};
  const Ran none = generate(chat);
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("the model has no chat template"), std::string::npos) << none.err;

  write_file(model_ / "chat_template.jinja",
             "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
             "assistant:{{ '<think>' if enable_thinking is not defined else '' }}");
  const auto prompt_of = [&](std::vector<std::string> words) {
    const Ran ran = generate(words);
    EXPECT_EQ(ran.code, 0) << ran.err;
    const Json out = Json::parse(ran.out, "stdout");
    const std::string& whole = out.find("text")->string();
    // The random model never closes its thoughts, so all it says is one or the other.
    const bool thinks = words.back() != "--no-think";
    EXPECT_EQ(out.find("content")->string().empty(), thinks);
    EXPECT_EQ(out.find("reasoning")->string().empty(), !thinks);
    EXPECT_FALSE(whole.empty());
    EXPECT_TRUE(out.find("tool_calls")->array().empty());
    std::string ids;
    for (const Json& id : out.find("prompt_ids")->array()) {
      ids += (ids.empty() ? "" : ",") + std::to_string(id.integer());
    }
    return run_tephra({"tokenizer", "decode", "--tokenizer", kByteLevel, "--special", ids}).out;
  };
  EXPECT_EQ(prompt_of(chat), "user: Hi\nassistant:<think>");
  std::vector<std::string> more = chat;
  more.insert(more.end(), {"--system", "Be brief", "--no-think"});
  EXPECT_EQ(prompt_of(more), "system: Be brief\nuser: Hi\nassistant:");

  EXPECT_NE(generate({"--prompt", "Hi", "--system", "x"}).err.find("--system is for --chat"),
            std::string::npos);
  EXPECT_NE(generate({"--prompt-ids", "5", "--chat"}).err.find("--chat needs --prompt TEXT"),
            std::string::npos);
}

TEST_F(TextGeneration, AsksForATokenizerOnlyWhenTextNeedsOne) {
  EXPECT_EQ(generate({"--prompt-ids", "5,6"}).code, 0);
  const Ran ran = generate({"--prompt", "Hello"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_EQ(ran.out, "");
  EXPECT_NE(ran.err.find("--prompt needs a tokenizer.json in the model folder, there is none"),
            std::string::npos)
      << ran.err;
  EXPECT_NE(
      generate({"--prompt-ids", "5", "--stop", "x"}).err.find("--stop needs a tokenizer.json"),
      std::string::npos);
  EXPECT_NE(generate({}).err.find("expected --prompt TEXT or --prompt-ids, got neither"),
            std::string::npos);
}

}  // namespace
}  // namespace tephra
