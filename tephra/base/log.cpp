// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/log.h"

#include <atomic>
#include <mutex>
#include <set>

#include "tephra/base/terminal.h"

namespace tephra {
namespace {

std::atomic<LogLevel> g_level{LogLevel::info};
std::mutex g_mutex;
std::function<void(LogLevel, std::string_view)> g_sink;  // guarded by g_mutex

struct Style {
  std::string_view prefix;
  std::string_view color;
};

Style style_of(LogLevel level) {
  switch (level) {
    case LogLevel::warning:
      return {"warning:", "\x1b[33m"};
    case LogLevel::error:
      return {"error:", "\x1b[31m"};
    default:
      return {};
  }
}

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void log_line(LogLevel level, std::string_view text) {
  if (level < g_level) return;
  const std::lock_guard lock(g_mutex);
  if (g_sink) return g_sink(level, text);
  const Style style = style_of(level);
  if (style.prefix.empty()) {
    write_line(text);
  } else if (stderr_has_color()) {
    write_line(format("{}{}\x1b[0m {}", style.color, style.prefix, text));
  } else {
    write_line(format("{} {}", style.prefix, text));
  }
}

LogCapture::LogCapture(std::function<void(LogLevel, std::string_view)> sink) {
  const std::lock_guard lock(g_mutex);
  g_sink = std::move(sink);
}

LogCapture::~LogCapture() {
  const std::lock_guard lock(g_mutex);
  g_sink = nullptr;
}

bool first_time(std::string_view key) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> seen;
  const std::lock_guard lock(mutex);
  return seen.emplace(key).second;
}

}  // namespace tephra
