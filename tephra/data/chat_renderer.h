// SPDX-License-Identifier: Apache-2.0
// Conversations as training text: a chat template writes them, and what the assistant wrote is
// told apart from the rest, whether the template marks it or not.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tephra/data/conversation.h"
#include "tephra/text/chat_template.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct ChatPiece {
  std::string text;
  bool learnt = false;  // the assistant wrote it
};

// A template that marks the assistant's turns by {% generation %} says itself what is learnt. For
// any other, a turn is found by rendering the chat a second time with the turn's text replaced: it
// begins where the generation prompt ends, and ends with the token that follows its content.
class ChatRenderer {
 public:
  // `tokenizer` knows the tokens that may end a turn.
  ChatRenderer(ChatTemplate form, std::shared_ptr<const Tokenizer> tokenizer);

  // The whole text, in pieces. Fault::data, naming the conversation, when the template refuses it
  // or does not show a turn of the assistant.
  std::vector<ChatPiece> operator()(const Conversation& conversation) const;

  // The token that ends a turn of the assistant; none where the template has no such token.
  std::optional<int32_t> end_of_turn() const;

  const std::string& where() const { return form_.where(); }

 private:
  using Span = std::pair<size_t, size_t>;

  RenderedChat render(const Json& messages, bool generation_prompt) const;
  std::vector<Span> find_turns(const Conversation& conversation, const Json& messages,
                               std::string_view text) const;
  Span find_turn(std::string_view text, std::string_view replaced, std::string_view mark,
                 size_t from) const;
  size_t bytes_of_end(std::string_view rest) const;

  ChatTemplate form_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string opening_;  // what the template puts before an answer
};

// Whether the reasoning of the last turn is missing in what the template made.
bool leaves_out_reasoning(const Conversation& conversation, std::span<const ChatPiece> pieces);

struct EncodedChat {
  std::vector<int32_t> tokens;
  std::vector<bool> learnt;  // whether each token is to be predicted
};

// Pieces are encoded one by one, as a prompt and what a model adds to it are. The tokenizer adds
// nothing of its own: a template writes its special tokens itself.
EncodedChat encode_chat(std::span<const ChatPiece> pieces, Encoder& encoder);

}  // namespace tephra
