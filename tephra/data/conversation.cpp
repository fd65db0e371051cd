// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/conversation.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/data/line_reader.h"

namespace tephra {
namespace {

ChatMessage parse_message(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  for (const auto& [key, unused] : json.object()) {
    require_data(key == "role" || key == "content" || key == "reasoning",
                 "{}: unknown key '{}'; expected role, content and reasoning", where,
                 clipped(key, 60));
  }
  ChatMessage message{fields.string("role"), fields.string("content"),
                      fields.string_or("reasoning", "")};
  constexpr const char* kRoles[] = {"system", "user", "assistant", "tool"};
  require_data(std::find(std::begin(kRoles), std::end(kRoles), message.role) != std::end(kRoles),
               "{}: expected the role system, user, assistant or tool, got '{}'", where,
               clipped(message.role, 60));
  require_data(message.reasoning.empty() || message.role == "assistant",
               "{}: only the assistant has reasoning, not the role {}", where, message.role);
  return message;
}

Conversation parse_conversation(std::string_view line, const std::string& where) {
  const Json json = Json::parse(line, where);
  const Json::Array& messages = Fields(json, where).array("messages");
  Conversation conversation{.messages = {}, .where = where};
  for (size_t i = 0; i < messages.size(); ++i) {
    conversation.messages.push_back(parse_message(messages[i], format("{}: message {}", where, i)));
  }
  const auto is_assistant = [](const ChatMessage& m) { return m.role == "assistant"; };
  const auto& all = conversation.messages;
  require_data(std::any_of(all.begin(), all.end(), is_assistant),
               "{}: expected a turn of the assistant; there is nothing to learn", where);
  return conversation;
}

}  // namespace

std::vector<Conversation> read_conversations(const Path& path) {
  LineReader reader(path);
  std::vector<Conversation> conversations;
  std::string_view line;
  while (reader.next(line)) {
    if (!trim(line).empty()) conversations.push_back(parse_conversation(line, reader.where()));
  }
  require_data(!conversations.empty(), "{}: has no conversations", path.string());
  return conversations;
}

}  // namespace tephra
