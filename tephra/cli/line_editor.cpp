// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/line_editor.h"

#include <algorithm>

#include "tephra/base/format.h"
#include "tephra/base/text.h"
#include "tephra/text/display_width.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr size_t kLongestSequence = 64;  // longer ones are no keys
constexpr size_t kLongestHistory = 1000;
constexpr std::string_view kPasteEnds = "\x1b[201~";

// A line break within the line is shown as a sign of one column, a tab as a space.
int width_at(std::string_view text, size_t at) {
  const char c = text[at];
  if (c == '\n' || c == '\t') return 1;
  return display_width(first_code_point(text.data() + at).value);
}

std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\u21b5";
    } else {
      out += c == '\t' ? ' ' : c;
    }
  }
  return out;
}

bool in_word(char c) { return c != ' ' && c != '\n' && c != '\t'; }

// Where a terminal's cursor is after so much text.
struct Spot {
  int row = 0, column = 0;

  void pass(std::string_view text, int columns) {
    for (size_t i = 0; i < text.size(); i += std::max<size_t>(1, utf8_sequence(text.substr(i)))) {
      const int width = width_at(text, i);
      if (column + width > columns) {
        ++row;
        column = 0;
      }
      column += width;
    }
  }
};

}  // namespace

void LineEditor::begin(std::string prompt) {
  prompt_ = std::move(prompt);
  text_.clear();
  cursor_ = 0;
  partial_.clear();
  pasting_ = clear_ = false;
  place_ = history_.size();
  draft_.clear();
  drawn_.clear();
  drawn_at_end_ = false;
  cursor_row_ = 0;
}

void LineEditor::remember(const std::string& line) {
  if (trim(line).empty() || (!history_.empty() && history_.back() == line)) return;
  history_.push_back(line);
  if (history_.size() > kLongestHistory) history_.erase(history_.begin());
}

size_t LineEditor::left_of(size_t at) const {
  while (at > 0) {
    --at;
    while (at > 0 && (static_cast<unsigned char>(text_[at]) & 0xc0) == 0x80) --at;
    if (width_at(text_, at) > 0) break;  // an accent belongs to the letter before it
  }
  return at;
}

size_t LineEditor::right_of(size_t at) const {
  const auto next = [&](size_t i) {
    return i + std::max<size_t>(1, utf8_sequence(std::string_view(text_).substr(i)));
  };
  if (at >= text_.size()) return text_.size();
  at = next(at);
  while (at < text_.size() && width_at(text_, at) == 0) at = next(at);
  return std::min(at, text_.size());
}

size_t LineEditor::word_left() const {
  size_t at = cursor_;
  while (at > 0 && !in_word(text_[at - 1])) --at;
  while (at > 0 && in_word(text_[at - 1])) --at;
  return at;
}

size_t LineEditor::word_right() const {
  size_t at = cursor_;
  while (at < text_.size() && !in_word(text_[at])) ++at;
  while (at < text_.size() && in_word(text_[at])) ++at;
  return at;
}

void LineEditor::insert(std::string_view text) {
  text_.insert(cursor_, text);
  cursor_ += text.size();
}

void LineEditor::erase(size_t from, size_t to) {
  text_.erase(from, to - from);
  cursor_ = from;
}

void LineEditor::go_in_history(int step) {
  const bool back = step < 0;
  if (back ? place_ == 0 : place_ == history_.size()) return;
  if (place_ == history_.size()) draft_ = text_;
  place_ = back ? place_ - 1 : place_ + 1;
  text_ = place_ == history_.size() ? draft_ : history_[place_];
  cursor_ = text_.size();
}

LineEditor::Event LineEditor::feed(char byte) {
  const auto code = static_cast<unsigned char>(byte);
  if (!partial_.empty() && partial_[0] == '\x1b') {
    escape_sequence(partial_ + byte);
    return Event::none;
  }
  if (code < 0x20 || code == 0x7f) {
    partial_.clear();
    if (pasting_ && byte != '\x1b') {
      if (byte == '\n' || byte == '\t') insert({&byte, 1});
      return Event::none;
    }
    return control(byte);
  }
  partial_ += byte;
  if (utf8_sequence(partial_) > 0) {
    // U+0080 to U+009F are control characters, too.
    if (partial_.size() == 1 || first_code_point(partial_.data()).value >= 0xa0) insert(partial_);
    partial_.clear();
  } else if (incomplete_utf8_tail(partial_) != partial_.size()) {
    const bool alone = partial_.size() == 1;
    partial_.clear();  // bytes that are no text; the last one may begin one
    if (!alone) return feed(byte);
  }
  return Event::none;
}

LineEditor::Event LineEditor::control(char byte) {
  switch (byte) {
    case '\n':
    case '\r':
      return Event::line;
    case '\t':
      insert("\t");
      break;
    case '\x1b':
      partial_ = byte;
      break;
    case 0x00:  // a Ctrl-D that was typed ahead, while the terminal still kept lines
      return text_.empty() ? Event::end : Event::none;
    case 0x04:
      if (text_.empty()) return Event::end;
      erase(cursor_, right_of(cursor_));
      break;
    case 0x08:
    case 0x7f:
      erase(left_of(cursor_), cursor_);
      break;
    case 0x01:
      cursor_ = 0;
      break;
    case 0x05:
      cursor_ = text_.size();
      break;
    case 0x02:
      cursor_ = left_of(cursor_);
      break;
    case 0x06:
      cursor_ = right_of(cursor_);
      break;
    case 0x0b:
      text_.erase(cursor_);
      break;
    case 0x15:
      erase(0, cursor_);
      break;
    case 0x17:
      erase(word_left(), cursor_);
      break;
    case 0x0c:
      clear_ = true;
      break;
    case 0x10:
      go_in_history(-1);
      break;
    case 0x0e:
      go_in_history(1);
      break;
    default:
      break;
  }
  return Event::none;
}

// ESC [ ... letter or ~, ESC O letter, ESC and one character.
void LineEditor::escape_sequence(std::string_view keys) {
  const char last = keys.back();
  const bool introduced = keys.size() >= 2 && (keys[1] == '[' || keys[1] == 'O');
  const bool whole = introduced ? keys.size() > 2 && last >= 0x40 && last <= 0x7e : keys.size() > 1;
  if (!whole && keys.size() < kLongestSequence) {
    partial_ = keys;
    return;
  }
  const std::string sequence(keys);
  partial_.clear();
  if (pasting_) {
    pasting_ = sequence != kPasteEnds;
  } else if (whole) {
    move_by_key(std::string_view(sequence).substr(1));
  }
}

void LineEditor::move_by_key(std::string_view key) {
  const auto is = [&](std::initializer_list<std::string_view> keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (is({"[A", "OA"})) return go_in_history(-1);
  if (is({"[B", "OB"})) return go_in_history(1);
  if (is({"[C", "OC"})) cursor_ = right_of(cursor_);
  if (is({"[D", "OD"})) cursor_ = left_of(cursor_);
  if (is({"[H", "OH", "[1~", "[7~"})) cursor_ = 0;
  if (is({"[F", "OF", "[4~", "[8~"})) cursor_ = text_.size();
  if (is({"[3~"})) erase(cursor_, right_of(cursor_));
  if (is({"[1;5D", "[1;3D", "b"})) cursor_ = word_left();
  if (is({"[1;5C", "[1;3C", "f"})) cursor_ = word_right();
  if (is({"\x7f", "\x08"})) erase(word_left(), cursor_);
  if (is({"\n", "\r"})) insert("\n");
  if (is({"[200~"})) pasting_ = true;
}

std::string LineEditor::draw(Screen screen) {
  const int columns = std::max(2, screen.columns);
  Spot end;
  end.pass(prompt_, columns);
  end.pass(text_, columns);
  const bool tall = end.row >= screen.rows - 1;
  // The common case: characters were typed at the end, and the row has room for them.
  const bool typed = !clear_ && drawn_at_end_ && cursor_ == text_.size() &&
                     columns == drawn_columns_ && text_.starts_with(drawn_);
  if (typed && !tall && end.row == cursor_row_ && end.column < columns) {
    const std::string out = shown(std::string_view(text_).substr(drawn_.size()));
    drawn_ = text_;
    return out;
  }
  Part part{0, text_.size()};
  if (tall) part = around_cursor(std::max(1, screen.rows - 2) * columns, columns);
  return draw_anew(part, columns);
}

// Of a text that is taller than the screen, what fits.
LineEditor::Part LineEditor::around_cursor(int room, int columns) const {
  Part part{cursor_, cursor_};
  for (int width = 0; part.first > 0;) {
    const size_t before = left_of(part.first);
    width += std::max(1, width_at(text_, before));
    if (width > room / 2) break;
    part.first = before;
  }
  for (int width = 0; part.last < text_.size();) {
    width += std::max(1, width_at(text_, part.last));
    if (width > room / 2 - columns) break;
    part.last = right_of(part.last);
  }
  return part;
}

std::string LineEditor::draw_anew(Part part, int columns) {
  const std::string_view text = text_;
  const std::string_view before = text.substr(part.first, cursor_ - part.first);
  const std::string_view behind = text.substr(cursor_, part.last - cursor_);
  std::string out = clear_ ? "\x1b[H\x1b[2J" : "\r";
  if (!clear_ && cursor_row_ > 0) out += format("\x1b[{}A", cursor_row_);
  out += "\x1b[J" + prompt_ + shown(before) + shown(behind);
  Spot at;
  at.pass(prompt_, columns);
  at.pass(before, columns);
  Spot stop = at;
  stop.pass(behind, columns);
  // A full row: the cursor still stands in it, and its next place is the row below.
  const auto settled = [&](Spot s) { return s.column == columns ? Spot{s.row + 1, 0} : s; };
  if (stop.column == columns) out += "\r\n";
  at = settled(at);
  stop = settled(stop);
  if (stop.row > at.row) out += format("\x1b[{}A", stop.row - at.row);
  out += "\r";
  if (at.column > 0) out += format("\x1b[{}C", at.column);
  cursor_row_ = at.row;
  drawn_ = text_;
  drawn_at_end_ = cursor_ == text_.size() && part.first == 0;
  drawn_columns_ = columns;
  clear_ = false;
  return out;
}

std::string LineEditor::draw_end(Screen screen) {
  cursor_ = text_.size();
  const std::string out = draw(screen);
  return out + "\r\n";
}

}  // namespace tephra
