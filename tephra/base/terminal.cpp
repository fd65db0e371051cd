// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <mutex>
#include <string>

namespace tephra {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[K";

std::mutex mutex;
std::string live_line;

// A broken standard error is no reason to fail: there is nobody to tell.
void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

bool color_is_welcome() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  const bool refused = no_color != nullptr && *no_color != '\0';
  const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  return !refused && !dumb;
}

}  // namespace

bool stdin_is_terminal() { return ::isatty(STDIN_FILENO) == 1; }
bool stdout_is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool stdout_has_color() { return stdout_is_terminal() && color_is_welcome(); }
bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1; }

bool stderr_has_color() { return stderr_is_terminal() && color_is_welcome(); }

int terminal_width() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

void write_line(std::string_view text) {
  const std::lock_guard lock(mutex);
  std::string out;
  if (!live_line.empty()) out += kClearLine;
  out += text;
  out += '\n';
  out += live_line;
  put(out);
}

void set_live_line(std::string_view text) {
  const std::lock_guard lock(mutex);
  if (live_line.empty() && text.empty()) return;
  live_line = text;
  put(std::string(kClearLine) + live_line);
}

}  // namespace tephra
