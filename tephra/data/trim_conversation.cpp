// SPDX-License-Identifier: Apache-2.0
// Answer-preserving trimming, as the ZAYA1 report describes it (section III-A).
#include "tephra/data/conversation.h"

namespace tephra {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // what half a character decodes to

ChatMessage* last_assistant(Conversation& conversation) {
  for (size_t i = conversation.messages.size(); i > 0; --i) {
    ChatMessage& message = conversation.messages[i - 1];
    if (message.role == "assistant") return &message;
  }
  return nullptr;
}

// Cuts the last turn's reasoning after the most tokens that let all fit, perhaps none; false when
// even without it nothing fits.
bool cut_reasoning(Conversation& conversation, int64_t context,
                   const std::function<int64_t(const Conversation&)>& length,
                   const Tokenizer& tokenizer) {
  ChatMessage* last = last_assistant(conversation);
  if (last == nullptr || last->reasoning.empty()) return false;
  const std::vector<int32_t> ids = tokenizer.encode(last->reasoning);
  const auto keep = [&](size_t count) {
    last->reasoning = tokenizer.decode(std::span(ids).first(count));
    return length(conversation) <= context;
  };
  if (!keep(0)) return false;
  size_t fits = 0, too_many = ids.size();
  while (too_many - fits > 1) {
    const size_t middle = fits + (too_many - fits) / 2;
    (keep(middle) ? fits : too_many) = middle;
  }
  // Tokens may be parts of a character: never end within one.
  for (keep(fits); fits > 0 && last->reasoning.ends_with(kReplacement); keep(fits)) --fits;
  return true;
}

}  // namespace

bool trim_conversation(Conversation& conversation, int64_t context,
                       const std::function<int64_t(const Conversation&)>& length,
                       const Tokenizer& tokenizer) {
  if (length(conversation) <= context) return true;
  const Conversation whole = conversation;
  if (cut_reasoning(conversation, context, length, tokenizer)) return true;
  conversation = whole;
  const ChatMessage* last = last_assistant(conversation);
  for (ChatMessage& message : conversation.messages) {
    if (&message != last) message.reasoning.clear();
  }
  if (length(conversation) <= context) return true;
  return cut_reasoning(conversation, context, length, tokenizer);
}

}  // namespace tephra
