// SPDX-License-Identifier: Apache-2.0
// Lines for people, on stderr; stdout belongs to results. Any thread may log.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tephra/base/format.h"

namespace tephra {

enum class LogLevel { info, warning, error };

// Lines below this level are dropped. `--quiet` sets warning.
void set_log_level(LogLevel level);
LogLevel log_level();

void log_line(LogLevel level, std::string_view text);

// Sends lines elsewhere (a test, a file) until it is destroyed. One at a time.
class LogCapture {
 public:
  explicit LogCapture(std::function<void(LogLevel, std::string_view)> sink);
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;
};

// True the first time this process sees the key.
bool first_time(std::string_view key);

template <class... Args>
void log_info(FormatString<Args...> text, const Args&... args) {
  if (log_level() > LogLevel::info) return;  // not even formatted
  log_line(LogLevel::info, tephra::format<Args...>(text, args...));
}

template <class... Args>
void log_warning(FormatString<Args...> text, const Args&... args) {
  log_line(LogLevel::warning, tephra::format<Args...>(text, args...));
}

template <class... Args>
void log_error(FormatString<Args...> text, const Args&... args) {
  log_line(LogLevel::error, tephra::format<Args...>(text, args...));
}

// For a setting that is ignored, or a slow path that is taken many times.
template <class... Args>
void warn_once(std::string_view key, FormatString<Args...> text, const Args&... args) {
  if (first_time(key)) log_warning<Args...>(text, args...);
}

}  // namespace tephra
