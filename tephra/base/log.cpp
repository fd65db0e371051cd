// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/log.h"

#include <atomic>
#include <cstdio>
#include <mutex>

namespace tephra {
namespace {

std::atomic<LogLevel> g_level{LogLevel::info};
std::mutex g_mutex;
std::function<void(LogLevel, std::string_view)> g_sink;  // guarded by g_mutex

std::string_view prefix(LogLevel level) {
  switch (level) {
    case LogLevel::warning:
      return "warning: ";
    case LogLevel::error:
      return "error: ";
    default:
      return "";
  }
}

}  // namespace

void set_log_level(LogLevel level) { g_level = level; }
LogLevel log_level() { return g_level; }

void log_line(LogLevel level, std::string_view text) {
  if (level < g_level) return;
  const std::lock_guard lock(g_mutex);
  if (g_sink) return g_sink(level, text);
  // One write, so that lines of several processes do not mix.
  const std::string line = format("{}{}\n", prefix(level), text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

LogCapture::LogCapture(std::function<void(LogLevel, std::string_view)> sink) {
  const std::lock_guard lock(g_mutex);
  g_sink = std::move(sink);
}

LogCapture::~LogCapture() {
  const std::lock_guard lock(g_mutex);
  g_sink = nullptr;
}

}  // namespace tephra
