// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/progress.h"

#include <algorithm>
#include <cmath>

#include "tephra/base/clock.h"
#include "tephra/base/format.h"
#include "tephra/base/log.h"
#include "tephra/base/terminal.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr double kLiveInterval = 0.1;
constexpr double kPlainInterval = 10;

std::string amount_text(int64_t count, const std::string& unit) {
  return unit == "B" ? human_bytes(count) : format("{} {}", human_count(count), unit);
}

double rate_of(const ProgressState& s) {
  return s.seconds > 0 ? static_cast<double>(s.done) / s.seconds : 0;
}

std::string rate_text(const ProgressState& s) {
  const double rate = rate_of(s);
  if (s.unit != "B" && rate < 10) return tephra::format("{:.2f} {}/s", rate, s.unit);
  return amount_text(std::llround(rate), s.unit) + "/s";
}

double fraction(const ProgressState& s) {
  return std::clamp(static_cast<double>(s.done) / static_cast<double>(s.total), 0.0, 1.0);
}

// "12.0 s left", or nothing before there is a rate.
std::string left_text(const ProgressState& s) {
  const double rate = rate_of(s);
  if (s.total <= 0 || rate <= 0) return "";
  const auto left = static_cast<double>(std::max<int64_t>(0, s.total - s.done));
  return format(", {} left", human_seconds(left / rate));
}

std::string done_of_total(const ProgressState& s) {
  if (s.total <= 0) return amount_text(s.done, s.unit);
  const std::string done = s.unit == "B" ? human_bytes(s.done) : human_count(s.done);
  return format("{} of {}", done, amount_text(s.total, s.unit));
}

// 100 % is shown only when all is done.
int percent(const ProgressState& s) { return static_cast<int>(100 * fraction(s)); }

}  // namespace

std::string human_seconds(double seconds) {
  if (seconds < 60) return format("{:.1f} s", seconds);
  const int64_t whole = std::llround(std::min(seconds, 1e9));
  const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
  if (hours == 0) return format("{}:{:02}", minutes, rest);
  return format("{}:{:02}:{:02}", hours, minutes, rest);
}

std::string progress_line(const ProgressState& s) {
  const std::string share = s.total > 0 ? format("{} %, ", percent(s)) : "";
  return format("{}: {}{}, {}{}", s.what, share, done_of_total(s), rate_text(s), left_text(s));
}

std::string progress_bar(const ProgressState& s, int width) {
  std::string text = progress_line(s);
  if (s.total > 0 && static_cast<int>(text.size()) >= width) {  // how long it takes matters most
    text = format("{}: {} %, {}{}", s.what, percent(s), rate_text(s), left_text(s));
  }
  constexpr int kSmallest = 10, kLargest = 30;
  const int room = width - 1 - static_cast<int>(text.size()) - 3;  // brackets and a space
  if (s.total <= 0 || room < kSmallest) return clipped(text, static_cast<size_t>(width - 1));
  const int cells = std::min(room, kLargest);
  const int full = static_cast<int>(fraction(s) * cells);
  return format("[{}{}] {}", std::string(static_cast<size_t>(full), '#'),
                std::string(static_cast<size_t>(cells - full), '-'), text);
}

std::string progress_summary(const ProgressState& s) {
  return format("{}: {} in {}, {}", s.what, amount_text(s.done, s.unit), human_seconds(s.seconds),
                rate_text(s));
}

Progress::Progress(std::string what, int64_t total, std::string unit)
    : what_(std::move(what)),
      total_(total),
      unit_(std::move(unit)),
      live_(stderr_is_terminal()),
      start_(steady_seconds()),
      next_(start_ + (live_ ? kLiveInterval : kPlainInterval)) {}

Progress::~Progress() {
  if (!shown_) return;
  if (live_) set_live_line("");
  log_line(LogLevel::info,
           progress_summary({what_, unit_, done_, total_, steady_seconds() - start_}));
}

void Progress::add(int64_t amount) {
  done_.fetch_add(amount, std::memory_order_relaxed);
  const double now = steady_seconds();
  if (now >= next_.load(std::memory_order_relaxed)) show(now);
}

void Progress::show(double now) {
  if (log_level() > LogLevel::info) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || now < next_) return;  // another thread is drawing, or just did
  next_ = now + (live_ ? kLiveInterval : kPlainInterval);
  shown_ = true;
  const ProgressState state{what_, unit_, done_, total_, now - start_};
  if (live_) {
    set_live_line(progress_bar(state, terminal_width()));
  } else {
    log_line(LogLevel::info, progress_line(state));
  }
}

}  // namespace tephra
