// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/chat_template.h"

#include <gtest/gtest.h>

#include "tephra/text/chat_session.h"
#include "tephra/text/chatml.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

Json messages() { return Json::parse(R"([{"role": "user", "content": "Hi"}])", "messages"); }

std::string zaya() { return read_file(Path(TEPHRA_GOLDEN_DIR) / "chat/zaya1.jinja"); }

TEST(ChatTemplate, LoadsAFileAndTheTokensOfTheConfig) {
  const Scratch folder;
  write_file(folder.path() / "chat_template.jinja",
             "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ image_token }}");
  write_file(
      folder.path() / "tokenizer_config.json",
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null, "add_bos_token": true,
                 "extra_special_tokens": {"image_token": "<img>"}, "chat_template": "not this"})");
  EXPECT_TRUE(ChatTemplate::present(folder.path()));
  EXPECT_EQ(ChatTemplate::load(folder.path()).render(messages()), "<s>Hi</s><img>");
}

TEST(ChatTemplate, LoadsFromTheConfigByName) {
  const Scratch folder;
  write_file(
      folder.path() / "tokenizer_config.json",
      R"({"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]})");
  const ChatTemplate made = ChatTemplate::load(folder.path());
  EXPECT_EQ(made.render(messages()), "plain");
  EXPECT_EQ(made.render(messages(), Json::Array{Json::Object{}}), "tools");
  EXPECT_EQ(ChatTemplate::load(folder.path(), "tool_use").render(messages()), "tools");
  const Error error = error_of([&] { (void)ChatTemplate::load(folder.path(), "rag"); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(
      std::string(error.what()).find("no chat template named 'rag'; there are: default, tool_use"),
      std::string::npos);
}

TEST(ChatTemplate, SaysWhenAFolderHasNone) {
  const Scratch folder;
  EXPECT_FALSE(ChatTemplate::present(folder.path()));
  const Error error = error_of([&] { (void)ChatTemplate::load(folder.path()); });
  EXPECT_EQ(error.fault(), Fault::usage);
  EXPECT_NE(std::string(error.what()).find("the model has no chat template"), std::string::npos);
}

TEST(ChatTemplate, ContinuesTheLastMessage) {
  const ChatTemplate made = ChatTemplate::parse(
      "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}", "t");
  ChatOptions options;
  options.add_generation_prompt = false;
  options.continue_final_message = true;
  const Json chat = Json::parse(
      R"([{"role": "user", "content": "So"}, {"role": "assistant", "content": " So it "}])",
      "chat");
  EXPECT_EQ(made.render(chat, {}, options), "<user>So</><assistant>So it");
  options.add_generation_prompt = true;
  EXPECT_EQ(error_of([&] { (void)made.render(chat, {}, options); }).fault(), Fault::usage);
}

TEST(ChatTemplate, ATaskIsItsQuestionAlone) {
  const ChatTemplate made = ChatTemplate::parse(kTasksTemplate, "tasks");
  const Json chat = Json::parse(R"([{"role": "system", "content": "Be kind."},
      {"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "2"},
      {"role": "user", "content": "What is 2 + 2?"}])",
                                "chat");
  ChatOptions options;
  options.add_generation_prompt = true;
  EXPECT_EQ(made.render(chat, {}, options), "What is 2 + 2?\n");
  Json answered = chat;
  answered.push_back(Json::Object{{"role", "assistant"}, {"content", "4"}});
  options.variables = Json::Object{{"eos_token", "<eos>"}};
  options.add_generation_prompt = false;
  EXPECT_EQ(made.render(answered, {}, options), "What is 2 + 2?\n4<eos>");
  options.continue_final_message = true;
  EXPECT_EQ(made.render(answered, {}, options), "What is 2 + 2?\n4");
}

TEST(ChatTemplate, MarksWhatTheAssistantWrote) {
  ChatSession session(ChatTemplate::parse(zaya(), "zaya1.jinja"));
  session.add("user", "Hi");
  ChatReply reply;
  reply.content = "Hello";
  session.add_reply(reply);
  ChatOptions options;
  options.add_generation_prompt = false;
  const RenderedChat chat =
      ChatTemplate::parse(zaya(), "zaya1.jinja").render_marked(session.messages(), {}, options);
  ASSERT_EQ(chat.assistant.size(), 1u);
  const auto [first, last] = chat.assistant[0];
  EXPECT_EQ(chat.text.substr(first, last - first), "Hello<|im_end|>");
}

TEST(ChatSession, AnswersReadBackRenderAsTheyWereWritten) {
  const std::string call =
      "<zyphra_tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</"
      "zyphra_tool_call>";
  ChatSession session(ChatTemplate::parse(zaya(), "zaya1.jinja"));
  session.add("user", "Hi");
  const std::string prompt = session.prompt();
  EXPECT_TRUE(ChatSession::opens_thinking(prompt));
  const std::string answer = "Why?\n</think>\n\nLet me see.\n" + call;
  ChatParser parser = session.parser(prompt);
  ChatReply reply = parser.add(answer);
  const ChatDelta rest = parser.finish();
  EXPECT_TRUE(rest.content.empty());
  EXPECT_EQ(reply.tool_calls.size(), 1u);
  session.add_reply(reply);
  ChatOptions options;
  options.add_generation_prompt = false;
  EXPECT_EQ(session.prompt(options), prompt + answer + "<|im_end|>\n");

  options.add_generation_prompt = true;
  options.enable_thinking = false;
  EXPECT_FALSE(ChatSession::opens_thinking(session.prompt(options)));
}

}  // namespace
}  // namespace tephra
