// SPDX-License-Identifier: Apache-2.0
// The two ends of a terminal chat: what a person types, and what is shown. Without a terminal it is
// lines in, text out.
#pragma once

#include <string>
#include <string_view>

#include "tephra/cli/line_editor.h"
#include "tephra/text/chat_parser.h"

namespace tephra {

// What arrives on standard input. On a terminal lines can be edited, and earlier ones come back by
// the arrow keys; lines that are pasted together stay together. A line that ends with \ goes on in
// the next; a block may be put between lines of """.
class ChatInput {
 public:
  ChatInput();

  enum class Event { text, interrupt, end };
  // `prompt` is shown on a terminal alone.
  Event next(const std::string& prompt, std::string& text);
  bool interactive() const { return interactive_; }

 private:
  Event next_line(const std::string& prompt, std::string& line);
  Event edit_line(const std::string& prompt, std::string& line);
  bool more_is_there(int milliseconds) const;
  bool read_more();  // false when there was nothing within a tenth of a second

  bool interactive_;
  bool editing_;  // the terminal can move its cursor
  bool ended_ = false;
  std::string held_;
  LineEditor editor_;
};

// What is shown of an answer. On a terminal thoughts are dimmed, and no byte of the model's text
// can command it; elsewhere the answer's text alone is written, as it is.
class ChatScreen {
 public:
  ChatScreen();

  bool show_thoughts = true;

  void begin_answer();
  void tell(const ChatDelta& delta);
  void end_answer(const std::string& remark);  // shown dimmed, on a terminal alone
  void note(std::string_view text) const;      // for the person: a line on standard error

 private:
  enum class Part { none, thoughts, content };
  void show(Part part, std::string_view text);

  bool terminal_, color_;
  Part part_ = Part::none;
};

// Without control characters, but for newlines and tabs.
std::string harmless(std::string_view text);

}  // namespace tephra
