// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/chat_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "tephra/base/error.h"
#include "tephra/base/signals.h"
#include "tephra/base/terminal.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr std::string_view kBlock = "\"\"\"";
constexpr int kPasteMilliseconds = 30;  // between two lines of one paste

void write_out(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

std::string harmless(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool plain = byte >= 0x20 || byte == '\n' || byte == '\t';
    // U+0080 to U+009F, which some terminals obey, are two bytes.
    const bool second =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (second) ++i;
    if (plain && byte != 0x7f && !second) {
      out += text[i];
    } else if (byte != '\r') {
      out += '?';
    }
  }
  return out;
}

namespace {

bool moves_cursor() {
  const char* kind = std::getenv("TERM");
  return kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

LineEditor::Screen screen_size() {
  winsize size{};
  LineEditor::Screen screen;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    screen = {size.ws_col, size.ws_row};
  }
  return screen;
}

// While it lives keys arrive one by one and unseen, and pastes are marked. Ctrl-C stays a signal.
class KeyByKey {
 public:
  KeyByKey() {
    ::tcgetattr(STDIN_FILENO, &before_);
    take();
    write_out("\x1b[?2004h");
  }
  ~KeyByKey() {
    write_out("\x1b[?2004l");
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  KeyByKey(const KeyByKey&) = delete;
  KeyByKey& operator=(const KeyByKey&) = delete;

  void take() const {  // once more after the program was stopped and went on
    termios now = before_;
    now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
  }

 private:
  termios before_{};
};

}  // namespace

ChatInput::ChatInput()
    : interactive_(stdin_is_terminal() && stdout_is_terminal()),
      editing_(interactive_ && moves_cursor()) {}

bool ChatInput::read_more() {
  pollfd p{STDIN_FILENO, POLLIN, 0};
  if (::poll(&p, 1, 100) <= 0) return false;
  char bytes[4096];
  const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (got < 0 && errno == EINTR) return false;
  if (got <= 0) {
    ended_ = true;
  } else {
    held_.append(bytes, static_cast<size_t>(got));
  }
  return true;
}

ChatInput::Event ChatInput::edit_line(const std::string& prompt, std::string& line) {
  const KeyByKey keys;
  editor_.begin(prompt);
  for (;;) {
    while (!held_.empty()) {
      const char byte = held_[0];
      held_.erase(0, 1);
      const LineEditor::Event event = editor_.feed(byte);
      if (event == LineEditor::Event::none) continue;
      if (event == LineEditor::Event::end) {
        ended_ = true;
        return Event::end;
      }
      write_out(editor_.draw_end(screen_size()));
      line = editor_.text();
      editor_.remember(line);
      return Event::text;
    }
    write_out(editor_.draw(screen_size()));
    if (ended_) return Event::end;
    while (held_.empty() && !ended_) {
      errno = 0;
      const bool came = read_more();
      if (interrupted()) {
        write_out("^C");
        return Event::interrupt;
      }
      if (!came && errno == EINTR) {  // stopped by Ctrl-Z, and back
        keys.take();
        write_out(editor_.draw(screen_size()));
      }
    }
  }
}

bool ChatInput::more_is_there(int milliseconds) const {
  if (!held_.empty()) return true;
  pollfd p{STDIN_FILENO, POLLIN, 0};
  return ::poll(&p, 1, milliseconds) > 0;
}

ChatInput::Event ChatInput::next_line(const std::string& prompt, std::string& line) {
  if (editing_) return edit_line(prompt, line);
  if (interactive_ && !prompt.empty()) write_out(prompt);
  for (;;) {
    const size_t end = held_.find('\n');
    if (end != held_.npos || (ended_ && !held_.empty())) {
      line = held_.substr(0, end);
      held_.erase(0, end == held_.npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Event::text;
    }
    if (ended_) return Event::end;
    read_more();
    if (interrupted()) return Event::interrupt;
  }
}

ChatInput::Event ChatInput::next(const std::string& prompt, std::string& text) {
  text.clear();
  std::string line;
  Event event = next_line(prompt, line);
  if (event != Event::text) return event;
  const std::string further = "... ";
  if (trim(line) == kBlock) {
    for (bool first = true; (event = next_line(further, line)) == Event::text; first = false) {
      if (trim(line) == kBlock) return Event::text;
      text += (first ? "" : "\n") + line;
    }
    return event;
  }
  text = line;
  for (;;) {
    const bool goes_on = text.ends_with('\\');
    const bool command = text.starts_with('/') && !text.starts_with("//");  // a line of its own
    const bool pasted = interactive_ && !goes_on && !command && more_is_there(kPasteMilliseconds);
    if (!goes_on && !pasted) return Event::text;
    if (goes_on) text.pop_back();
    event = next_line(pasted ? "" : further, line);
    if (event == Event::end) return Event::text;
    if (event != Event::text) return event;
    text += "\n" + line;
  }
}

ChatScreen::ChatScreen() : terminal_(stdout_is_terminal()), color_(stdout_has_color()) {}

void ChatScreen::begin_answer() { part_ = Part::none; }

void ChatScreen::show(Part part, std::string_view text) {
  if (text.empty()) return;
  std::string out;
  if (terminal_ && part != part_) {
    if (part_ == Part::thoughts) out += color_ ? "\x1b[0m\n\n" : "\n\n";
    if (part == Part::thoughts) out += color_ ? "\x1b[2m" : "(thinking) ";
  }
  part_ = part;
  write_out(out + (terminal_ ? harmless(text) : std::string(text)));
}

void ChatScreen::tell(const ChatDelta& delta) {
  if (terminal_ && show_thoughts) show(Part::thoughts, delta.reasoning);
  show(Part::content, delta.content);
}

void ChatScreen::end_answer(const std::string& remark) {
  std::string out = part_ == Part::thoughts && color_ ? "\x1b[0m\n" : "\n";
  if (terminal_ && !remark.empty()) {
    out += color_ ? "\x1b[2m" + remark + "\x1b[0m\n" : remark + "\n";
  }
  write_out(out);
  part_ = Part::none;
}

void ChatScreen::note(std::string_view text) const { write_line(harmless(text)); }

}  // namespace tephra
