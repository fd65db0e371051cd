// SPDX-License-Identifier: Apache-2.0
// What is learnt of a conversation, exactly, for templates of each shape.
#include "tephra/data/chat_renderer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tephra/base/format.h"
#include "tephra/text/byte_tokenizer.h"
#include "tephra/text/chatml.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

// Knows the tokens that end a turn in every one of the templates.
std::shared_ptr<const Tokenizer> tokenizer() {
  static const auto shared = [] {
    std::string json = byte_tokenizer_json();
    const char* names[] = {"<|eot_id|>", "<end_of_turn>", "<|start_header_id|>", "<start_of_turn>"};
    for (size_t i = 0; i < std::size(names); ++i) {
      const std::string reserved = format("<|reserved_{}|>", 7 + i);
      for (size_t at = 0; (at = json.find(reserved)) != json.npos;) {
        json.replace(at, reserved.size(), names[i]);
      }
    }
    return std::make_shared<const Tokenizer>(Tokenizer::parse(json, "bytes"));
  }();
  return shared;
}

ChatRenderer renderer(std::string_view source) {
  ChatTemplate form = ChatTemplate::parse(source, "chat_template.jinja");
  form.set_token("bos_token", "<bos>");
  return {std::move(form), tokenizer()};
}

std::string golden(const std::string& name) {
  return read_file(Path(TEPHRA_GOLDEN_DIR) / "chat" / (name + ".jinja"));
}

// The text with what is learnt in [[ ]].
std::string marked(const ChatRenderer& render, const Conversation& conversation) {
  std::string text;
  for (const ChatPiece& piece : render(conversation)) {
    text += piece.learnt ? "[[" + piece.text + "]]" : piece.text;
  }
  return text;
}

Conversation chat(std::vector<ChatMessage> messages) {
  Conversation conversation;
  conversation.messages = std::move(messages);
  conversation.where = "chats.jsonl:7";
  return conversation;
}

Conversation two_turns() {
  return chat({{"user", "1+1?", ""},
               {"assistant", "<t> 2", "easy"},
               {"user", "2+2?", ""},
               {"assistant", "4", "add\nthem"}});
}

TEST(ChatRenderer, TakesTheMarksOfATemplate) {
  EXPECT_EQ(marked(renderer(golden("zaya1")), two_turns()),
            "<bos><|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n[[<t> 2<|im_end|>]]\n"
            "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
            "[[<think>\nadd\nthem\n</think>\n\n4<|im_end|>]]\n");
  EXPECT_EQ(marked(renderer(kChatmlTemplate), two_turns()),
            "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n"
            "[[<think>\neasy\n</think>\n\n<t> 2<|im_end|>]]\n"
            "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
            "[[<think>\nadd\nthem\n</think>\n\n4<|im_end|>]]\n");
}

// ZAYA1's generation prompt opens the thinking, so it is no prefix of a turn without reasoning.
TEST(ChatRenderer, FindsTheSameTurnsWithoutMarks) {
  std::string source = golden("zaya1");
  for (const char* tag : {"{%- generation -%}", "{%- endgeneration -%}"}) {
    source.erase(source.find(tag), std::string_view(tag).size());
  }
  EXPECT_EQ(marked(renderer(source), two_turns()), marked(renderer(golden("zaya1")), two_turns()));
}

TEST(ChatRenderer, FindsTurnsOfTheOtherShapes) {
  EXPECT_EQ(marked(renderer(golden("qwen3")), two_turns()),
            "<|im_start|>user\n1+1?<|im_end|>\n<|im_start|>assistant\n[[<t> 2<|im_end|>]]\n"
            "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
            "[[<think>\nadd\nthem\n</think>\n\n4<|im_end|>]]\n");
  const Conversation with_system = chat({{"system", "Be brief.", ""},
                                         {"user", "x?", ""},
                                         {"assistant", " yes ", ""},
                                         {"user", "y?", ""},
                                         {"assistant", "no", ""}});
  EXPECT_EQ(marked(renderer(golden("gemma")), with_system),
            "<bos><start_of_turn>user\nBe brief.\n\nx?<end_of_turn>\n"
            "<start_of_turn>model\n[[yes<end_of_turn>]]\n"
            "<start_of_turn>user\ny?<end_of_turn>\n<start_of_turn>model\n[[no<end_of_turn>]]\n");
  EXPECT_EQ(marked(renderer(golden("zamba2")), with_system),
            "<bos><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nx?<|im_end|>\n"
            "<|im_start|>assistant\n[[yes<|im_end|>]]\n<|im_start|>user\ny?<|im_end|>\n"
            "<|im_start|>assistant\n[[no<|im_end|>]]\n");
  EXPECT_EQ(marked(renderer(golden("llama3")), with_system),
            "<bos><|start_header_id|>system<|end_header_id|>\n\nKnowledge until: December 2023\n"
            "Today: 01 Jan 2025\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nx?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[[yes<|eot_id|>]]"
            "<|start_header_id|>user<|end_header_id|>\n\ny?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n[[no<|eot_id|>]]");
  const auto plain = renderer(
      "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}");
  EXPECT_EQ(marked(plain, chat({{"user", "x?", ""}, {"assistant", "yes", ""}})),
            "user: x?\nassistant: [[yes\n]]");
}

TEST(ChatRenderer, TellsTurnsApartThatReadAlike) {
  const Conversation same = chat({{"user", "again", ""},
                                  {"assistant", "again", ""},
                                  {"user", "again", ""},
                                  {"assistant", "", ""}});
  EXPECT_EQ(marked(renderer(golden("zamba2")), same),
            "<bos><|im_start|>user\nagain<|im_end|>\n<|im_start|>assistant\n[[again<|im_end|>]]\n"
            "<|im_start|>user\nagain<|im_end|>\n<|im_start|>assistant\n[[<|im_end|>]]\n");
}

TEST(ChatRenderer, KnowsTheTokenThatEndsATurn) {
  const auto name = [](const ChatRenderer& render) {
    return tokenizer()->token(*render.end_of_turn());
  };
  EXPECT_EQ(name(renderer(golden("zaya1"))), "<|im_end|>");
  EXPECT_EQ(name(renderer(golden("gemma"))), "<end_of_turn>");
  EXPECT_FALSE(renderer("{% for m in messages %}{{ m.content }}\n{% endfor %}").end_of_turn());
}

TEST(ChatRenderer, KnowsWhenReasoningIsLeftOut) {
  const Conversation thought = two_turns();
  EXPECT_FALSE(leaves_out_reasoning(thought, renderer(golden("qwen3"))(thought)));
  EXPECT_TRUE(leaves_out_reasoning(thought, renderer(golden("zamba2"))(thought)));
}

TEST(ChatRenderer, NamesTheConversationThatATemplateRefuses) {
  const Error refused = error_of([] {
    renderer(golden("zamba2"))(chat({{"assistant", "hello", ""}, {"user", "x", ""}}));
  });
  EXPECT_EQ(refused.fault(), Fault::data);
  const std::string text = refused.what();
  EXPECT_TRUE(text.starts_with("chats.jsonl:7: chat_template.jinja: ")) << text;
  EXPECT_NE(text.find("Roles must alternate"), std::string::npos) << text;

  const Error hidden = error_of([] {
    renderer("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")(two_turns());
  });
  EXPECT_EQ(hidden.fault(), Fault::data);
  EXPECT_NE(hidden.hint().find("{% generation %}"), std::string::npos) << hidden.hint();
}

TEST(ChatRenderer, LearnsTheTokensOfTheTurnsAlone) {
  const auto pieces = renderer(golden("zaya1"))(two_turns());
  Encoder encoder(*tokenizer());
  const EncodedChat encoded = encode_chat(pieces, encoder);
  std::vector<int32_t> learnt;
  for (size_t i = 0; i < encoded.tokens.size(); ++i) {
    if (encoded.learnt[i]) learnt.push_back(encoded.tokens[i]);
  }
  EXPECT_EQ(tokenizer()->decode(learnt),
            "<t> 2<|im_end|><think>\nadd\nthem\n</think>\n\n4<|im_end|>");
  EXPECT_EQ(encoded.tokens[0], 2) << "one <bos>, the template's";
  EXPECT_EQ(std::count(encoded.tokens.begin(), encoded.tokens.end(), 2), 1);
}

}  // namespace
}  // namespace tephra
