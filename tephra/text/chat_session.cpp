// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/chat_session.h"

#include "tephra/base/text.h"

namespace tephra {

void ChatSession::add(const std::string& role, const std::string& content) {
  add(Json::Object{{"role", role}, {"content", content}});
}

void ChatSession::add_reply(const ChatReply& reply) {
  Json message = Json::Object{{"role", "assistant"}, {"content", reply.content}};
  if (!reply.reasoning.empty()) message["reasoning_content"] = reply.reasoning;
  for (const ToolCall& call : reply.tool_calls) {
    Json function = Json::Object{{"name", call.name}, {"arguments", call.arguments}};
    message["tool_calls"].push_back(
        Json::Object{{"type", "function"}, {"function", std::move(function)}});
  }
  add(std::move(message));
}

bool ChatSession::opens_thinking(std::string_view prompt) {
  return trim(prompt).ends_with("<think>");
}

}  // namespace tephra
