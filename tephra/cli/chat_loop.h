// SPDX-License-Identifier: Apache-2.0
// Turn by turn: reads what a person types, runs what starts with '/', and has the rest answered.
#pragma once

#include "tephra/cli/chat_screen.h"
#include "tephra/cli/chat_talk.h"

namespace tephra {

class ChatLoop {
 public:
  ChatLoop(ChatTalk& talk, ChatInput& input, ChatScreen& screen)
      : talk_(talk), input_(input), screen_(screen) {}

  int run();  // the exit code

 private:
  struct Row;
  static const std::vector<Row>& rows();

  void take(const std::string& text);
  void answer(const std::string& text);
  void command(std::string_view line);

  void help(std::string_view);
  void reset(std::string_view);
  void system(std::string_view text);
  void retry(std::string_view);
  void undo(std::string_view);
  void save(std::string_view file);
  void load(std::string_view file);
  void set(std::string_view words);
  void quit(std::string_view) { over_ = true; }
  void list_settings() const;

  ChatTalk& talk_;
  ChatInput& input_;
  ChatScreen& screen_;
  bool over_ = false;
  bool failed_ = false;  // a command or an answer, when nobody is there to see it
};

}  // namespace tephra
