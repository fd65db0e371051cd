// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/chat_renderer.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

// Noon of the first of January 2025, UTC: what a template that asks for the date is told, so that
// the same conversations are the same tokens on any day.
constexpr std::time_t kDate = 1735732800;

Json to_json(const ChatMessage& message) {
  Json json = Json::Object{{"role", message.role}, {"content", message.content}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  return json;
}

Json to_json(const Conversation& conversation) {
  Json messages = Json::Array{};
  for (const ChatMessage& message : conversation.messages) messages.push_back(to_json(message));
  return messages;
}

// A character of private use that the conversation does not have.
std::string unused_mark(const Conversation& conversation) {
  for (unsigned code = 0xE000; code < 0xF8FF; ++code) {
    const std::string mark{static_cast<char>(0xE0 | (code >> 12)),
                           static_cast<char>(0x80 | ((code >> 6) & 0x3F)),
                           static_cast<char>(0x80 | (code & 0x3F))};
    const auto has_it = [&](const ChatMessage& m) {
      return m.content.find(mark) != m.content.npos || m.reasoning.find(mark) != m.content.npos;
    };
    const auto& all = conversation.messages;
    if (std::none_of(all.begin(), all.end(), has_it)) return mark;
  }
  throw Error(Fault::data, format("{}: has every character of private use", conversation.where));
}

std::vector<ChatPiece> cut(std::string_view text,
                           const std::vector<std::pair<size_t, size_t>>& learnt) {
  std::vector<ChatPiece> pieces;
  const auto add = [&](size_t first, size_t last, bool is_learnt) {
    if (first < last) pieces.push_back({std::string(text.substr(first, last - first)), is_learnt});
  };
  size_t at = 0;
  for (const auto& [first, last] : learnt) {
    add(at, first, false);
    add(first, last, true);
    at = last;
  }
  add(at, text.size(), false);
  return pieces;
}

}  // namespace

ChatRenderer::ChatRenderer(ChatTemplate form, std::shared_ptr<const Tokenizer> tokenizer)
    : form_(std::move(form)), tokenizer_(std::move(tokenizer)) {
  const Json question = Json::Array{Json::Object{{"role", "user"}, {"content", "x"}}};
  try {
    const std::string without = render(question, false).text;
    const std::string with = render(question, true).text;
    if (with.starts_with(without)) opening_ = with.substr(without.size());
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): such a template has no opening
  }
}

RenderedChat ChatRenderer::render(const Json& messages, bool generation_prompt) const {
  ChatOptions options;
  options.add_generation_prompt = generation_prompt;
  options.clock = [] { return kDate; };
  return form_.render_marked(messages, {}, options);
}

std::vector<ChatPiece> ChatRenderer::operator()(const Conversation& conversation) const {
  const Json messages = to_json(conversation);
  try {
    const RenderedChat chat = render(messages, false);
    return cut(chat.text, chat.assistant.empty() ? find_turns(conversation, messages, chat.text)
                                                 : chat.assistant);
  } catch (const Error& error) {
    throw Error(Fault::data, format("{}: {}", conversation.where, error.what()), error.hint());
  }
}

std::vector<ChatRenderer::Span> ChatRenderer::find_turns(const Conversation& conversation,
                                                         const Json& messages,
                                                         std::string_view text) const {
  const std::string mark = unused_mark(conversation);
  std::vector<Span> turns;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i].role != "assistant") continue;
    Json replaced = messages;
    replaced.array()[i] = to_json(ChatMessage{"assistant", mark, ""});
    turns.push_back(find_turn(text, render(replaced, false).text, mark,
                              turns.empty() ? 0 : turns.back().second));
  }
  return turns;
}

ChatRenderer::Span ChatRenderer::find_turn(std::string_view text, std::string_view replaced,
                                           std::string_view mark, size_t from) const {
  const size_t at = replaced.find(mark);
  const bool once = at != replaced.npos && replaced.find(mark, at + 1) == replaced.npos;
  const std::string_view before = replaced.substr(0, once ? at : 0);
  const std::string_view rest = once ? replaced.substr(at + mark.size()) : replaced;
  const size_t opened = before.rfind(opening_);
  const size_t first =
      opened != before.npos && opened >= from ? opened + opening_.size() : before.size();
  const size_t content_end = text.size() - std::min(rest.size(), text.size());
  if (!once || first < from || first > content_end || !text.starts_with(before.substr(0, first)) ||
      !text.ends_with(rest)) {
    throw Error(Fault::data, format("{}: cannot tell what the assistant wrote", form_.where()),
                "mark the assistant's turns in the template with {% generation %}");
  }
  return {first, content_end + bytes_of_end(rest)};
}

// Bytes of the token that ends the turn, with white space before it; where a template has none, of
// the newline that takes its place.
size_t ChatRenderer::bytes_of_end(std::string_view rest) const {
  const size_t space = std::min(rest.find_first_not_of(" \n"), rest.size());
  size_t longest = 0;
  for (const AddedToken& token : tokenizer_->added_tokens()) {
    if (rest.substr(space).starts_with(token.content)) {
      longest = std::max(longest, token.content.size());
    }
  }
  if (longest > 0) return space + longest;
  return rest.starts_with('\n') ? 1 : 0;
}

std::optional<int32_t> ChatRenderer::end_of_turn() const {
  Conversation chat;
  chat.messages = {{"user", "x", ""}, {"assistant", "y", ""}};
  try {
    std::optional<int32_t> last;
    for (const ChatPiece& piece : (*this)(chat)) {
      if (piece.learnt) last = tokenizer_->encode(piece.text).back();
    }
    return last && tokenizer_->is_special(*last) ? last : std::nullopt;
  } catch (const Error&) {  // it wants other chats than this one
    return std::nullopt;
  }
}

bool leaves_out_reasoning(const Conversation& conversation, std::span<const ChatPiece> pieces) {
  const auto& all = conversation.messages;
  const auto last = std::find_if(all.rbegin(), all.rend(),
                                 [](const ChatMessage& m) { return m.role == "assistant"; });
  if (last == all.rend()) return false;
  const std::string_view reasoning = trim(last->reasoning);
  return !reasoning.empty() &&
         std::none_of(pieces.begin(), pieces.end(), [&](const ChatPiece& piece) {
           return piece.learnt && piece.text.find(reasoning) != piece.text.npos;
         });
}

EncodedChat encode_chat(std::span<const ChatPiece> pieces, Encoder& encoder) {
  EncodedChat chat;
  for (const ChatPiece& piece : pieces) {
    encoder.encode(piece.text, chat.tokens);
    chat.learnt.resize(chat.tokens.size(), piece.learnt);
  }
  return chat;
}

}  // namespace tephra
