// SPDX-License-Identifier: Apache-2.0
// Fine-tuning on conversations, from a model folder to a model folder that chats.
#include "tests/cli/train_run.h"

namespace tephra {
namespace {

constexpr const char* kSftConfig = R"(
name = "sft"
seed = 5
[data]
chat_template = "TEMPLATE"
[[data.sources]]
name = "chats"
kind = "conversations"
paths = ["CHATS"]
validation_paths = ["CHATS"]
[[phases]]
steps = 120
context = 128
batch_tokens = 256
lr = 1e-2
warmup_steps = 5
[checkpoints]
every_steps = 0
[validation]
samples = 2
)";

class Sft : public Train {
 protected:
  Sft() {
    std::string lines;
    for (const char* name : {"Ada", "Bob"}) {
      lines += format(R"({{"messages": [{{"role": "user", "content": "I am {0}."}},)"
                      R"({{"role": "assistant", "content": "Hello {0}!", "reasoning": "greet"}}]}})"
                      "\n",
                      name);
    }
    write_file(scratch_ / "chats.jsonl", lines);
  }

  // A run with this data.chat_template.
  Ran tune(const std::string& run, const std::string& chat_template,
           std::vector<std::string> more = {}) const {
    std::string config = kSftConfig;
    const auto put = [&](std::string_view mark, const std::string& value) {
      for (size_t at = 0; (at = config.find(mark)) != config.npos;) {
        config.replace(at, mark.size(), value);
      }
    };
    put("TEMPLATE", chat_template);
    put("CHATS", (scratch_ / "chats.jsonl").string());
    write_file(scratch_ / "sft.toml", config);
    std::vector<std::string> all{"train",     (scratch_ / "sft.toml").string(),
                                 "--out",     run_dir(run).string(),
                                 "--threads", "2"};
    all.insert(all.end(), more.begin(), more.end());
    return kTephra(all);
  }

  // A model folder that a short pretraining made.
  std::string base() const {
    EXPECT_EQ(kTephra(arguments("pretrained", {"--set", "phases.1.steps=1"})).code, 0);
    const std::string model = run_dir("base").string();
    EXPECT_EQ(
        kTephra({"checkpoint", "export", "--from", run_dir("pretrained").string(), "--to", model})
            .code,
        0);
    return model;
  }
};

std::vector<double> losses_of(const Path& run) {
  std::vector<double> losses;
  const std::string text = read_file(run / "metrics.jsonl");
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) losses.push_back(Json::parse(line, "metrics").find("loss")->number());
  }
  return losses;
}

TEST_F(Sft, LearnsToAnswerInTheModelsOwnTemplate) {
  const std::string form = (Path(TEPHRA_GOLDEN_DIR) / "chat" / "zaya1.jinja").string();
  const Ran ran = tune("tuned", form, {"--init-from", base()});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const std::vector<double> losses = losses_of(run_dir("tuned"));
  ASSERT_EQ(losses.size(), 120u);
  EXPECT_GT(losses.front(), 2.0);
  EXPECT_LT(losses.back(), 0.2) << "of the assistant's turns, which are all that counts";

  const std::string model = run_dir("chatty").string();
  ASSERT_EQ(
      kTephra({"checkpoint", "export", "--from", run_dir("tuned").string(), "--to", model}).code,
      0);
  EXPECT_EQ(read_file(Path(model) / "chat_template.jinja"), read_file(form));
  for (const std::string name : {"Ada", "Bob"}) {
    const Ran answer = kTephra({"generate", "--model", model, "--chat", "--prompt",
                                "I am " + name + ".", "--max-new-tokens", "60", "--json"});
    ASSERT_EQ(answer.code, 0) << answer.err;
    EXPECT_NE(answer.out.find("Hello " + name + "!"), std::string::npos) << answer.out;
    EXPECT_NE(answer.out.find("\"eos\""), std::string::npos) << "it ends its turn: " << answer.out;
  }
}

TEST_F(Sft, TakesTheTokenizersTemplateAndSaysWhenThereIsNone) {
  const std::string model = base();
  const std::vector<std::string> from{"--init-from", model, "--set", "phases.0.steps=2"};
  EXPECT_EQ(tune("own", "tokenizer", from).code, 0);
  EXPECT_EQ(read_file(run_dir("own") / "model" / "chat_template.jinja"),
            read_file(Path(model) / "chat_template.jinja"));

  std::filesystem::remove(Path(model) / "chat_template.jinja");
  const Ran none = tune("none", "tokenizer", from);
  EXPECT_EQ(none.code, 2);
  EXPECT_NE(none.err.find("data.chat_template"), std::string::npos) << none.err;
  EXPECT_EQ(tune("none", "chatml", from).code, 0);
  const Ran missing = tune("missing", "no-such.jinja", from);
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("no-such.jinja"), std::string::npos) << missing.err;
}

TEST_F(Sft, WarnsWhenTheModelWouldNotStopAtTheEndOfATurn) {
  const std::string model = base();
  const std::vector<std::string> from{"--init-from", model, "--set", "phases.0.steps=1"};
  const Ran good = tune("good", "chatml", from);
  EXPECT_EQ(good.err.find("is no end token"), std::string::npos) << good.err;
  Json json = Json::parse(read_file(Path(model) / "config.json"), "config.json");
  json["eos_token_id"] = int64_t{1};
  write_file(Path(model) / "config.json", json.dump());
  const Ran warned = tune("warned", "chatml", from);
  EXPECT_EQ(warned.code, 0);
  EXPECT_NE(warned.err.find("<|im_end|>, which is no end token of the model"), std::string::npos)
      << warned.err;
}

}  // namespace
}  // namespace tephra
