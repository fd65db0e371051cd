// SPDX-License-Identifier: Apache-2.0
// One line that is being typed on a terminal: keys in, what to write to the terminal out. Knows
// nothing of the terminal itself, so that it can be tried without one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tephra {

class LineEditor {
 public:
  enum class Event { none, line, end };  // end: Ctrl-D on an empty line
  struct Screen {
    int columns = 80, rows = 24;
  };

  void begin(std::string prompt);  // an empty line
  // One byte of what the keyboard sends: UTF-8, control characters, escape sequences.
  Event feed(char byte);
  const std::string& text() const { return text_; }
  void remember(const std::string& line);  // for the arrow keys up and down

  // Makes the terminal show the line as it is now; the cursor goes where it belongs.
  std::string draw(Screen screen);
  std::string draw_end(Screen screen);  // the same, and the cursor goes to the line below

 private:
  struct Part {
    size_t first, last;  // bytes of text_
  };
  Part around_cursor(int room, int columns) const;
  std::string draw_anew(Part part, int columns);
  Event control(char byte);
  void escape_sequence(std::string_view keys);
  void insert(std::string_view text);
  void erase(size_t from, size_t to);
  void move_by_key(std::string_view key);
  void go_in_history(int step);
  size_t left_of(size_t at) const;
  size_t right_of(size_t at) const;
  size_t word_left() const;
  size_t word_right() const;

  std::string prompt_, text_;
  size_t cursor_ = 0;    // a byte of text_ at which a character begins, or its end
  std::string partial_;  // of a character or an escape sequence
  bool pasting_ = false;
  bool clear_ = false;  // the whole screen, with the next drawing

  std::vector<std::string> history_;
  size_t place_ = 0;   // in history_; its size: the line that is new
  std::string draft_;  // what was typed before going back in history

  // What the terminal shows.
  std::string drawn_;
  bool drawn_at_end_ = false;
  int drawn_columns_ = 0;
  int cursor_row_ = 0;  // below the prompt's
};

}  // namespace tephra
