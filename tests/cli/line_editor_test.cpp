// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/line_editor.h"

#include <gtest/gtest.h>

#include "tephra/base/text.h"
#include "tephra/text/display_width.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

using Event = LineEditor::Event;

std::string typed(LineEditor& editor, std::string_view keys) {
  for (const char key : keys) editor.feed(key);
  return editor.text();
}
std::string typed(std::string_view keys) {
  LineEditor editor;
  editor.begin("> ");
  return typed(editor, keys);
}

TEST(LineEditor, KeysChangeTheLine) {
  EXPECT_EQ(typed("hello"), "hello");
  EXPECT_EQ(typed("hello\x1b[D\x1b[DX"), "helXlo");
  EXPECT_EQ(typed("hello\x1b[HX\x1b[FY"), "XhelloY");
  EXPECT_EQ(typed("hello\x01X\x05Y"), "XhelloY");
  EXPECT_EQ(typed("hello\x7f\x7f"), "hel");
  EXPECT_EQ(typed("hello\x1b[1~\x1b[3~"), "ello");
  EXPECT_EQ(typed("one two\x17"), "one ");
  EXPECT_EQ(typed("one two\x1b[1;5D\x0b"), "one ");
  EXPECT_EQ(typed("one two\x1b[1;5D\x15"), "two");
  EXPECT_EQ(typed("one two\x1b"
                  "b\x1b"
                  "b\x1b"
                  "fX"),
            "oneX two");
  EXPECT_EQ(typed("a\x1b\nb"), "a\nb") << "Alt+Enter";
  EXPECT_EQ(typed("a\x1b[D\x04"), "") << "Ctrl-D deletes in a line that is not empty";
  EXPECT_EQ(typed("a\x1b[99;99;99;99;99;99;99Zb\x1bOQc\x03\x1a"), "abc") << "unknown keys";
}

TEST(LineEditor, CharactersAreWhole) {
  EXPECT_EQ(typed("a\u00e4\u4e2d\U0001f600\x7f\x7f"), "a\u00e4");
  EXPECT_EQ(typed("\u4e2d\u6587\x1b[Dx"), "\u4e2dx\u6587");
  EXPECT_EQ(typed("e\u0301x\x7f\x7f"), "") << "an accent goes with its letter";
  EXPECT_EQ(typed("a\xff\xfe\xc3(b\xc2\x9b"), "a(b") << "what is no text";
  EXPECT_EQ(typed("\x7f\x1b[D\x1b[C\x1b[3~\x17\x15\x0b"), "");
}

TEST(LineEditor, PastesAreTakenAsTheyAre) {
  EXPECT_EQ(typed("x\x1b[200~one\ntwo\x01\tthree\x1b[201~y"), "xone\ntwo\tthreey");
  EXPECT_EQ(typed("\x1b[200~a\x1b[Ab\x1b[201~\x7f"), "a") << "no keys within a paste";
}

TEST(LineEditor, EarlierLinesComeBack) {
  LineEditor editor;
  for (const char* line : {"first", "second", "second", " "}) editor.remember(line);
  editor.begin("> ");
  EXPECT_EQ(typed(editor, "new\x1b[A"), "second");
  EXPECT_EQ(typed(editor, "\x10"), "first");
  EXPECT_EQ(typed(editor, "\x1b[A!"), "first!");
  EXPECT_EQ(typed(editor, "\x1b[B"), "second");
  EXPECT_EQ(typed(editor, "\x0e\x1bOB"), "new");
}

TEST(LineEditor, SaysWhenALineIsWholeAndWhenTheInputEnds) {
  LineEditor editor;
  editor.begin("> ");
  EXPECT_EQ(editor.feed('a'), Event::none);
  EXPECT_EQ(editor.feed('\n'), Event::line);
  editor.begin("> ");
  EXPECT_EQ(editor.feed(0x04), Event::end);
}

// As much of a terminal as the editor asks for.
class Emulator {
 public:
  Emulator(int columns, int rows) : columns_(columns), rows_(rows) {}

  void write(std::string_view bytes) {
    for (size_t i = 0; i < bytes.size();) {
      if (bytes[i] == '\x1b') {
        size_t end = i + 2;
        while (bytes[end] < 0x40) ++end;
        sequence(bytes.substr(i + 2, end - i - 2), bytes[end]);
        i = end + 1;
      } else if (bytes[i] == '\r') {
        column = 0;
        ++i;
      } else if (bytes[i] == '\n') {
        down();
        ++i;
      } else {
        const size_t size = utf8_sequence(bytes.substr(i));
        ASSERT_GT(size, 0u);
        put(std::string(bytes.substr(i, size)));
        i += size;
      }
    }
  }
  // Rows without the blanks behind them, joined by |.
  std::string screen() const {
    std::string all;
    for (const auto& line : cells_) {
      std::string text;
      for (const std::string& cell : line) text += cell;
      all += std::string(trim(text).empty() ? "" : text.substr(0, text.find_last_not_of(' ') + 1)) +
             "|";
    }
    while (all.ends_with("||")) all.pop_back();
    return all;
  }

  int row = 0, column = 0;

 private:
  void down() {
    if (++row < rows_) return;
    row = rows_ - 1;
    cells_.erase(cells_.begin());
    cells_.emplace_back(columns_, " ");
  }
  void put(const std::string& character) {
    const int width = display_width(first_code_point(character.data()).value);
    if (column + width > columns_) {
      column = 0;
      down();
    }
    auto& line = cells_[static_cast<size_t>(row)];
    line[static_cast<size_t>(column)] = character;
    for (int i = 1; i < width; ++i) line[static_cast<size_t>(column + i)] = "";
    column += width;
  }
  void sequence(std::string_view number, char what) {
    const int count = number.empty() ? 1 : std::atoi(std::string(number).c_str());
    if (what == 'A') row = std::max(0, row - count);
    if (what == 'C') column = std::min(columns_ - 1, column + count);
    if (what == 'H') row = column = 0;
    if (what != 'J') return;
    const bool all = number == "2";
    for (int r = all ? 0 : row; r < rows_; ++r) {
      for (int c = !all && r == row ? column : 0; c < columns_; ++c) {
        cells_[static_cast<size_t>(r)][static_cast<size_t>(c)] = " ";
      }
    }
  }

  int columns_, rows_;
  std::vector<std::vector<std::string>> cells_{
      static_cast<size_t>(rows_), std::vector<std::string>(static_cast<size_t>(columns_), " ")};
};

// The same keys shown after each of them and only at the end make the same screen.
TEST(LineEditor, TheScreenShowsTheLine) {
  const std::vector<std::string> keys = {
      "a",    "bc d",      "\u4e2d\u6587", "\x1b[D",     "\x7f",    "\x1b[H", "\x1b[F",
      "\x17", "\x1b[1;5D", "\x1b\n",       "0123456789", "\x1b[3~", "\x0b"};
  uint64_t random = 88172645463325252;
  for (int round = 0; round < 300; ++round) {
    LineEditor steps, once;
    Emulator shown(12, 40), expected(12, 40);
    steps.begin("> ");
    once.begin("> ");
    shown.write(steps.draw({12, 40}));
    for (int i = 0; i < 12; ++i) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      const std::string& key = keys[random % keys.size()];
      typed(steps, key);
      shown.write(steps.draw({12, 40}));
      typed(once, key);
    }
    expected.write(once.draw({12, 40}));
    ASSERT_EQ(shown.screen(), expected.screen()) << round;
    ASSERT_EQ(shown.row, expected.row) << round << " " << shown.screen();
    ASSERT_EQ(shown.column, expected.column) << round << " " << shown.screen();
  }
}

TEST(LineEditor, WrapsAndEndsBelowTheLine) {
  LineEditor editor;
  Emulator terminal(6, 10);
  editor.begin("> ");
  typed(editor, "abcd");  // the row is full
  terminal.write(editor.draw({6, 10}));
  EXPECT_EQ(terminal.screen(), "> abcd|");
  EXPECT_EQ(terminal.row, 1);
  EXPECT_EQ(terminal.column, 0);
  typed(editor, "e\x1b\nf\x1b[D");
  terminal.write(editor.draw({6, 10}));
  EXPECT_EQ(terminal.screen(), "> abcd|e\u21b5f|");
  EXPECT_EQ(terminal.column, 2);
  terminal.write(editor.draw_end({6, 10}));
  EXPECT_EQ(terminal.row, 2);
  EXPECT_EQ(terminal.column, 0);
}

TEST(LineEditor, ALineTallerThanTheScreenShowsWhereTheCursorIs) {
  LineEditor editor;
  Emulator terminal(10, 5);
  editor.begin("> ");
  typed(editor, "begin" + std::string(500, '.') + "end");
  terminal.write(editor.draw({10, 5}));
  EXPECT_NE(terminal.screen().find("end"), std::string::npos) << terminal.screen();
  typed(editor, "\x01");
  terminal.write(editor.draw({10, 5}));
  EXPECT_NE(terminal.screen().find("> begin"), std::string::npos) << terminal.screen();
}

}  // namespace
}  // namespace tephra
