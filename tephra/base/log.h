// SPDX-License-Identifier: Apache-2.0
// Messages to the person at the terminal, on standard error. Information can be silenced with
// --quiet; warnings and errors cannot.
#pragma once

#include <string_view>

#include "tephra/base/format.h"
#include "tephra/base/terminal.h"

namespace tephra {

enum class LogLevel { info, warning, error };

void log_message(LogLevel level, std::string_view text);

// True the first time this process sees the key.
bool first_time(std::string_view key);

template <class... Args>
void log_info(FormatString<Args...> text, const Args&... args) {
  if (!quiet()) log_message(LogLevel::info, format<Args...>(text, args...));
}

template <class... Args>
void log_warn(FormatString<Args...> text, const Args&... args) {
  log_message(LogLevel::warning, format<Args...>(text, args...));
}

template <class... Args>
void log_error(FormatString<Args...> text, const Args&... args) {
  log_message(LogLevel::error, format<Args...>(text, args...));
}

// For a setting that is ignored, or a slow path that is taken many times.
template <class... Args>
void warn_once(std::string_view key, FormatString<Args...> text, const Args&... args) {
  if (first_time(key)) log_warn<Args...>(text, args...);
}

}  // namespace tephra
