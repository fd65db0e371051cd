// SPDX-License-Identifier: Apache-2.0
// A conversation: the messages so far, the prompt they make, and the parser for the answer to it.
#pragma once

#include "tephra/text/chat_parser.h"
#include "tephra/text/chat_template.h"

namespace tephra {

class ChatSession {
 public:
  explicit ChatSession(ChatTemplate form, Json tools = {})
      : form_(std::move(form)), tools_(std::move(tools)) {}

  void add(const std::string& role, const std::string& content);
  void add(Json message) { messages_.push_back(std::move(message)); }
  void add_reply(const ChatReply& reply);  // as the assistant's message
  const Json& messages() const { return messages_; }

  std::string prompt(const ChatOptions& options = {}) const {
    return form_.render(messages_, tools_, options);
  }
  // For the text that follows this prompt.
  ChatParser parser(std::string_view prompt) const {
    return ChatParser({.starts_thinking = opens_thinking(prompt), .tools = tools_});
  }

  // Whether the prompt ends inside of a think block that its template opened.
  static bool opens_thinking(std::string_view prompt);

 private:
  ChatTemplate form_;
  Json tools_;
  Json messages_ = Json::Array{};
};

}  // namespace tephra
