// SPDX-License-Identifier: Apache-2.0
// Conversations for supervised fine-tuning: read from JSON lines, rendered to pieces of text of
// which the assistant's are learnt, trimmed to a context without touching an answer.
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
};

// One conversation a line: {"messages": [{"role", "content", "reasoning"?}, ...]}; other keys of a
// line are ignored, of a message they are Fault::data, with file:line. Plain or compressed.
std::vector<Conversation> read_conversations(const Path& path);

// What a chat is written as.
struct ChatPiece {
  std::string text;
  bool learnt = false;  // the assistant wrote it
};
using ChatRenderer = std::function<std::vector<ChatPiece>(const Conversation&)>;

// ChatML: <|im_start|>ROLE\nCONTENT<|im_end|>\n, reasoning in <think>\n ... \n</think>\n\n before
// the content. An assistant's turn is learnt from its reasoning on, its end included.
std::vector<ChatPiece> chatml_pieces(const Conversation& conversation);

struct EncodedChat {
  std::vector<int32_t> tokens;
  std::vector<bool> learnt;  // whether each token is to be predicted
};

// Pieces are encoded one by one, as a prompt and what a model adds to it are; a first token that
// the tokenizer asks for comes before them.
EncodedChat encode_chat(const Conversation& conversation, const ChatRenderer& render,
                        const Tokenizer& tokenizer, Encoder& encoder);

// Answer-preserving trimming to `context` tokens: keeps what fits; else cuts the tail of the last
// turn's reasoning to the longest that fits; else drops the reasoning of earlier turns and cuts
// again. False when the answers alone are too long: then the conversation is to be dropped.
bool trim_conversation(Conversation& conversation, int64_t context,
                       const std::function<int64_t(const Conversation&)>& length,
                       const Tokenizer& tokenizer);

}  // namespace tephra
