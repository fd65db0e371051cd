// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tephra/base/log.h"

namespace tephra {
namespace {

constexpr std::chrono::milliseconds kLiveInterval{100};
constexpr std::chrono::seconds kPlainInterval{10};

std::string amount_text(int64_t amount, const std::string& unit) {
  return unit == "B" ? bytes_text(amount) : format("{} {}", amount, unit);
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  if (bytes < 1000) return format("{} B", bytes);
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, kUnits[unit]);
}

Progress::Progress(std::string what, int64_t total, std::string unit)
    : what_(std::move(what)),
      total_(total),
      unit_(std::move(unit)),
      live_(isatty(STDERR_FILENO) != 0),
      next_(start_ + (live_ ? Clock::duration(kLiveInterval) : Clock::duration(kPlainInterval))) {}

Progress::~Progress() {
  if (live_ && shown_) std::fputc('\n', stderr);
}

void Progress::add(int64_t amount) {
  done_ += amount;
  const bool last = done_ >= total_;
  if (log_level() > LogLevel::info) return;
  // Work that ends before the first interval says nothing.
  if (Clock::now() >= next_ || (last && shown_)) print(last);
}

void Progress::print(bool last) {
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double share = total_ > 0 ? static_cast<double>(done_) / static_cast<double>(total_) : 1;
  const double left = share > 0 ? seconds / share - seconds : 0;
  const std::string line =
      format("{}: {} of {} ({:.0f} %), {}", what_, amount_text(done_, unit_),
             amount_text(total_, unit_), 100 * std::min(share, 1.0),
             last ? format("{:.1f} s", seconds) : format("{:.0f} s left", left));
  if (live_) {
    std::fprintf(stderr, "\r%s\x1b[K", line.c_str());
    std::fflush(stderr);
    next_ = now + kLiveInterval;
  } else {
    log_line(LogLevel::info, line);
    next_ = now + kPlainInterval;
  }
  shown_ = true;
}

}  // namespace tephra
