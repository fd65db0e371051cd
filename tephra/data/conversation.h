// SPDX-License-Identifier: Apache-2.0
// Conversations for supervised fine-tuning: read from JSON lines, and trimmed to a context without
// touching an answer. chat_renderer.h makes text of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
  std::string reasoning;  // of the assistant; may be empty
};

struct Conversation {
  std::vector<ChatMessage> messages;
  std::string where = "a conversation";  // "chats.jsonl:3"
};

// One conversation a line: {"messages": [{"role", "content", "reasoning"?}, ...]}; other keys of a
// line are ignored, of a message they are Fault::data, with file:line. Plain or compressed.
std::vector<Conversation> read_conversations(const Path& path);

// Answer-preserving trimming to `context` tokens: keeps what fits; else cuts the tail of the last
// turn's reasoning to the longest that fits; else drops the reasoning of earlier turns and cuts
// again. False when the answers alone are too long: then the conversation is to be dropped.
bool trim_conversation(Conversation& conversation, int64_t context,
                       const std::function<int64_t(const Conversation&)>& length,
                       const Tokenizer& tokenizer);

}  // namespace tephra
