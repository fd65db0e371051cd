// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/chat_parser.h"

#include <algorithm>

#include "tephra/base/text.h"
#include "tephra/text/tool_argument.h"

namespace tephra {
namespace {

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>";
constexpr std::string_view kCall = "<zyphra_tool_call>", kCallEnd = "</zyphra_tool_call>";

// How much of the end of `text` could be the start of `marker`.
size_t partial(std::string_view text, std::string_view marker) {
  for (size_t n = std::min(text.size(), marker.size() - 1); n > 0; --n) {
    if (marker.starts_with(text.substr(text.size() - n))) return n;
  }
  return 0;
}

size_t trailing_newlines(std::string_view text) {
  return text.size() - (text.find_last_not_of('\n') + 1);  // npos + 1 is 0
}

std::string_view without_newline_ends(std::string_view text) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text;
}

// The text between `open` and `close`, which must follow at once but for white space; moves `text`
// behind it.
bool take_between(std::string_view& text, std::string_view open, std::string_view close,
                  std::string_view& inside) {
  std::string_view rest = text;
  const size_t begin = rest.find_first_not_of(" \t\r\n");
  if (begin == rest.npos || !rest.substr(begin).starts_with(open)) return false;
  rest.remove_prefix(begin + open.size());
  const size_t end = rest.find(close);
  if (end == rest.npos) return false;
  inside = rest.substr(0, end);
  text = rest.substr(end + close.size());
  return true;
}

const Json* found(const Json* object, std::string_view key) {
  return object != nullptr && object->is_object() ? object->find(key) : nullptr;
}

// The schema of a tool's parameters; null when no tool says.
const Json* parameters_of(const Json& tools, std::string_view name) {
  if (!tools.is_array()) return nullptr;
  for (const Json& tool : tools.array()) {
    const Json* function = found(&tool, "function");
    if (function == nullptr) function = &tool;
    const Json* called = found(function, "name");
    if (called != nullptr && called->is_string() && called->string() == name) {
      return found(function, "parameters");
    }
  }
  return nullptr;
}

}  // namespace

ChatParser::ChatParser(ChatParserOptions options)
    : options_(std::move(options)),
      state_(options_.starts_thinking ? State::reasoning : State::content) {}

ChatReply ChatParser::parse(std::string_view text, ChatParserOptions options) {
  ChatParser parser(std::move(options));
  ChatReply reply = parser.add(text);
  ChatDelta rest = parser.finish();
  reply.reasoning += rest.reasoning;
  reply.content += rest.content;
  for (ToolCall& call : rest.tool_calls) reply.tool_calls.push_back(std::move(call));
  return reply;
}

ChatDelta ChatParser::add(std::string_view piece) {
  held_ += piece;
  ChatDelta delta;
  while (step(delta, false)) {
  }
  return delta;
}

ChatDelta ChatParser::finish() {
  ChatDelta delta;
  while (step(delta, true)) {
  }
  return delta;
}

bool ChatParser::step(ChatDelta& delta, bool last) {
  switch (state_) {
    case State::reasoning:
      return step_reasoning(delta, last);
    case State::content:
      return step_content(delta, last);
    case State::call:
      return step_call(delta, last);
  }
  return false;
}

void ChatParser::tell(ChatDelta& delta, std::string_view text) {
  (state_ == State::reasoning ? delta.reasoning : delta.content) += text;
  if (text.empty()) return;
  begin_ = false;
  if (state_ == State::content) content_told_ = true;
}

// Each step handles what it can of held_ and says whether it changed the state.
bool ChatParser::step_reasoning(ChatDelta& delta, bool last) {
  if (begin_) held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
  if (begin_ && held_.starts_with(kThink)) {  // a model that opens the block once more
    held_.erase(0, kThink.size());
    return true;
  }
  const size_t end = held_.find(kThinkEnd);
  if (end != held_.npos) {
    tell(delta, std::string_view(held_).substr(
                    0, end - trailing_newlines(std::string_view(held_).substr(0, end))));
    held_.erase(0, end + kThinkEnd.size());
    state_ = State::content;
    begin_ = true;
    return true;
  }
  size_t keep = 0;
  if (last) {
    keep = 0;
  } else {
    keep = partial(held_, kThinkEnd);
    keep += trailing_newlines(std::string_view(held_).substr(0, held_.size() - keep));
    if (begin_ && keep < held_.size())
      keep = std::max(keep, kThink.starts_with(held_) ? held_.size() : 0);
  }
  tell(delta, std::string_view(held_).substr(0, held_.size() - keep));
  held_.erase(0, held_.size() - keep);
  return false;
}

bool ChatParser::step_content(ChatDelta& delta, bool last) {
  if (begin_) held_.erase(0, std::min(held_.find_first_not_of('\n'), held_.size()));
  if (begin_ && !content_told_ && held_.starts_with(kThink)) {
    held_.erase(0, kThink.size());
    state_ = State::reasoning;
    return true;
  }
  const size_t at = held_.find(kCall);
  if (at != held_.npos) {
    const std::string_view before = std::string_view(held_).substr(0, at);
    const size_t newlines = trailing_newlines(before);
    tell(delta, before.substr(0, at - newlines));
    held_.erase(0, at - newlines);  // the call's own newlines come back if it is none
    state_ = State::call;
    return true;
  }
  size_t keep = 0;
  if (!last) {
    keep = partial(held_, kCall);
    keep += trailing_newlines(std::string_view(held_).substr(0, held_.size() - keep));
    if (begin_ && !content_told_ && kThink.starts_with(held_)) keep = held_.size();
  }
  tell(delta, std::string_view(held_).substr(0, held_.size() - keep));
  held_.erase(0, held_.size() - keep);
  return false;
}

bool ChatParser::step_call(ChatDelta& delta, bool last) {
  const size_t begin = held_.find(kCall) + kCall.size();
  const size_t end = held_.find(kCallEnd, begin);
  if (end == held_.npos && !last) return false;
  state_ = State::content;
  ToolCall call;
  const std::string_view whole = held_;
  if (end != held_.npos && read_call(whole.substr(begin, end - begin), call)) {
    delta.tool_calls.push_back(std::move(call));
    held_.erase(0, end + kCallEnd.size());
    begin_ = true;
    content_told_ = true;  // a <think> behind a call is text
    return true;
  }
  // No call: its opening tag is text, and what follows may hold another one.
  tell(delta, whole.substr(0, begin));
  held_.erase(0, begin);
  begin_ = false;
  return true;
}

bool ChatParser::read_call(std::string_view body, ToolCall& call) const {
  std::string_view function;
  if (!take_between(body, "<function=", "</function>", function)) return false;
  if (body.find_first_not_of(" \t\r\n") != body.npos) return false;
  const size_t name_end = function.find('>');
  if (name_end == function.npos) return false;
  call.name = trim(function.substr(0, name_end));
  if (call.name.empty() || call.name.find_first_of("<\n") != call.name.npos) return false;
  function.remove_prefix(name_end + 1);
  std::string_view parameter;
  while (take_between(function, "<parameter=", "</parameter>", parameter)) {
    const size_t end = parameter.find('>');
    if (end == parameter.npos) return false;
    const std::string key(trim(parameter.substr(0, end)));
    if (key.empty()) return false;
    call.arguments[key] = typed(call.name, key, without_newline_ends(parameter.substr(end + 1)));
  }
  return function.find_first_not_of(" \t\r\n") == function.npos;
}

Json ChatParser::typed(const std::string& name, const std::string& parameter,
                       std::string_view text) const {
  const Json* root = parameters_of(options_.tools, name);
  const Json* schema = found(found(root, "properties"), parameter);
  if (schema == nullptr) return read_argument(text);
  return options_.held ? read_held_argument({*schema, *root}, text)
                       : read_argument({*schema, *root}, text);
}

}  // namespace tephra
