// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/log.h"

#include <mutex>
#include <set>
#include <string>

namespace tephra {
namespace {

struct Style {
  std::string_view prefix;
  std::string_view color;
};

Style style_of(LogLevel level) {
  switch (level) {
    case LogLevel::info:
      return {"", ""};
    case LogLevel::warning:
      return {"warning: ", "\x1b[33m"};
    case LogLevel::error:
      return {"error: ", "\x1b[31m"};
  }
  return {};
}

}  // namespace

void log_message(LogLevel level, std::string_view text) {
  const Style style = style_of(level);
  std::string line;
  if (!style.color.empty() && stderr_has_color()) {
    line = format("{}{}\x1b[0m{}", style.color, style.prefix, text);
  } else {
    line = format("{}{}", style.prefix, text);
  }
  write_line(line);
}

bool first_time(std::string_view key) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  const std::lock_guard lock(mutex);
  return seen.emplace(key).second;
}

}  // namespace tephra
