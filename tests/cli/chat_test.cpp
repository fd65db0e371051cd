// SPDX-License-Identifier: Apache-2.0
// `tephra chat` with lines piped in; on a terminal it is tried by chat_terminal_test.py.
#include <gtest/gtest.h>

#include <filesystem>

#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/cli/chat_screen.h"
#include "tests/cli/chat_model.h"
#include "tests/support/program.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

class ChatCommand : public ::testing::Test {
 protected:
  void SetUp() override { make_chat_model(scratch_ / "model"); }

  std::string at(const std::string& name) const { return (scratch_ / name).string(); }
  Ran chat(const std::string& input, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"chat",         "--model", at("model"), "--no-think",
                                      "--max-tokens", "12",      "--quiet"};
    words.insert(words.end(), more.begin(), more.end());
    return Program{.path = TEPHRA_BINARY, .input = input}(words);
  }

  Scratch scratch_;
};

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ChatCommand, AnswersPipedLinesAsGenerateDoes) {
  const Ran ran = chat("Hello\n", {"--temperature", "0"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  const Ran whole = Program{.path = TEPHRA_BINARY}(
      {"generate", "--model", at("model"), "--chat", "--no-think", "--prompt", "Hello",
       "--max-new-tokens", "12", "--device", "cpu", "--quiet", "--json"});
  const Json json = Json::parse(whole.out, "generate");
  ASSERT_FALSE(json.find("content")->string().empty());
  EXPECT_EQ(ran.out, json.find("content")->string() + "\n");
}

TEST_F(ChatCommand, TheSameSeedGivesTheSameTalk) {
  const std::string talk = "Hello\nAnd then?\n/retry\n";
  const Ran one = chat(talk, {"--seed", "5"}), two = chat(talk, {"--seed", "5"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_EQ(one.out, two.out);
  EXPECT_NE(one.out, chat(talk, {"--seed", "6"}).out);
}

TEST_F(ChatCommand, SavesAndLoadsWhatTrainingReads) {
  const Ran ran = chat(
      "/system Be brief.\nHello\n\"\"\"\ntwo\nlines\n\"\"\"\nand\\\nmore\n/undo\n"
      "/save " +
      at("talk.jsonl") + "\n");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_TRUE(says(ran.err, "(taken back: and?more)") || says(ran.err, "(taken back: and"))
      << ran.err;
  const std::string saved = read_file(scratch_ / "talk.jsonl");
  const Json json = Json::parse(saved, "talk");
  const Json::Array& messages = json.find("messages")->array();
  ASSERT_EQ(messages.size(), 5u) << saved;
  EXPECT_EQ(messages[0].find("content")->string(), "Be brief.");
  EXPECT_EQ(messages[1].find("content")->string(), "Hello");
  EXPECT_EQ(messages[2].find("role")->string(), "assistant");
  EXPECT_EQ(messages[3].find("content")->string(), "two\nlines");
  const Ran again = chat("/save " + at("again.jsonl") + "\n", {"--load", at("talk.jsonl")});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_file(scratch_ / "again.jsonl"), saved);
  write_file(scratch_ / "bad.jsonl", R"({"messages": [{"role": "king", "content": "x"}]})");
  EXPECT_EQ(chat("", {"--load", at("bad.jsonl")}).code, 3);
}

TEST_F(ChatCommand, SaysWhatIsWrongAndGoesOn) {
  const Ran ran = chat(
      "/rest\n/set temprature 1\n/set top_p 2\n/set seed x\n/load nowhere\n/retry\n"
      "//slash\n");
  EXPECT_EQ(ran.code, 2) << "a program sees it";
  EXPECT_TRUE(says(ran.err, "there is no command /rest; did you mean /reset?")) << ran.err;
  EXPECT_TRUE(says(ran.err, "there is no setting 'temprature'; did you mean temperature?"));
  EXPECT_TRUE(says(ran.err, "top_p: expected a number"));
  EXPECT_TRUE(says(ran.err, "seed: expected a whole number"));
  EXPECT_TRUE(says(ran.err, "nowhere"));
  EXPECT_TRUE(says(ran.err, "/retry: nothing has been said yet"));
  EXPECT_FALSE(ran.out.empty()) << "the message was answered";
}

TEST_F(ChatCommand, ListsCommandsAndSettings) {
  const Ran ran = chat("/help\n/set temperature 0.25\n/set thinking = on\n/set\n/quit\nnever\n");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "");
  for (const char* name : {"/help", "/reset", "/system", "/save", "/load", "/retry", "/set"}) {
    EXPECT_TRUE(says(ran.err, name)) << name;
  }
  EXPECT_TRUE(says(ran.err, "temperature  0.25")) << ran.err;
  EXPECT_TRUE(says(ran.err, "thinking     on")) << ran.err;
}

TEST_F(ChatCommand, RefusesATalkThatIsTooLong) {
  const Ran ran = chat(std::string(6000, 'x') + "\nHello\n", {"--context", "300"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(says(ran.err, "there is room for 300")) << ran.err;
  EXPECT_FALSE(ran.out.empty()) << "the next message was answered";
}

TEST_F(ChatCommand, NeedsAChatTemplate) {
  std::filesystem::remove(scratch_ / "model/chat_template.jinja");
  const Ran ran = chat("Hello\n");
  EXPECT_EQ(ran.code, 2);
  EXPECT_TRUE(says(ran.err, "expected a chat template")) << ran.err;
}

TEST(ChatScreen, LetsNoTextCommandATerminal) {
  EXPECT_EQ(harmless("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(harmless("\x1b[31mred\x07\x7f\r\n"), "?[31mred??\n");
  EXPECT_EQ(harmless("\xc2\x9b"
                     "2J\xc2\xa0\xc3\xa9"),
            "?2J\xc2\xa0\xc3\xa9");
}

}  // namespace
}  // namespace tephra
