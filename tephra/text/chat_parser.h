// SPDX-License-Identifier: Apache-2.0
// Reads a ZAYA1 answer back: reasoning, content and tool calls, from whole text or piece by piece.
// Any cutting of the text into pieces gives the same events' sum, and no piece of a marker is ever
// told as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tephra/base/json.h"

namespace tephra {

struct ToolCall {
  std::string name;
  Json arguments = Json::Object{};
};

struct ChatReply {
  std::string reasoning, content;
  std::vector<ToolCall> tool_calls;
};

// What one piece of text adds; the parts append to those of the reply.
using ChatDelta = ChatReply;

struct ChatParserOptions {
  // The prompt ended in an open <think>, as ZAYA1's generation prompt does.
  bool starts_thinking = false;
  // The tools offered, as in the request; their schemas type the arguments. Null: all are guessed.
  Json tools;
  // A grammar held the model to a call (serve/output_form.h), which fixes how arguments are
  // written.
  bool held = false;
};

// A call that is malformed (no name, no end, text between the tags) is told as content, word for
// word, so nothing the model said is lost. Newlines beside the markers belong to the markers:
// "<think>\n", "\n</think>\n\n", "\n<zyphra_tool_call>", "</zyphra_tool_call>\n".
class ChatParser {
 public:
  explicit ChatParser(ChatParserOptions options = {});

  ChatDelta add(std::string_view piece);
  ChatDelta finish();  // the text is over: what was held back is told

  static ChatReply parse(std::string_view text, ChatParserOptions options = {});

 private:
  enum class State { reasoning, content, call };

  bool step(ChatDelta& delta, bool last);
  bool step_reasoning(ChatDelta& delta, bool last);
  bool step_content(ChatDelta& delta, bool last);
  bool step_call(ChatDelta& delta, bool last);
  void tell(ChatDelta& delta, std::string_view text);
  bool read_call(std::string_view body, ToolCall& call) const;
  Json typed(const std::string& name, const std::string& parameter, std::string_view text) const;

  ChatParserOptions options_;
  State state_;
  std::string held_;   // not told yet
  bool begin_ = true;  // nothing of this state told yet: newlines of its marker may follow
  bool content_told_ = false;
};

}  // namespace tephra
