// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/rsa_progress.h"

#include <algorithm>

#include "tephra/base/clock.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/terminal.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr double kRsaLiveInterval = 0.1, kRsaPlainInterval = 10;

std::string rate_of_tokens(int64_t tokens, double seconds) {
  return format("{:.1f} tokens/s", seconds > 0 ? static_cast<double>(tokens) / seconds : 0);
}

}  // namespace

RsaProgress::RsaProgress(int64_t questions, int64_t answered, int64_t rounds, const RsaOptions& o)
    : questions_(questions),
      known_rounds_(rounds),
      traces_(o.traces),
      rounds_(o.rounds),
      live_(stderr_is_terminal()),
      start_(steady_seconds()),
      answered_(answered),
      in_round_(static_cast<size_t>(o.rounds) + 1),
      round_(questions == 1 ? rounds : 0),
      round_start_(start_) {
  next_ = start_ + (live_ ? kRsaLiveInterval : kRsaPlainInterval);
}

RsaProgress::~RsaProgress() {
  if (live_) set_live_line("");
}

void RsaProgress::round_is_over(int64_t new_tokens, double now) {
  if (live_) set_live_line("");  // it tells of the round that is over
  log_info("round {} of {}: {} {}, {} tokens in {}, {}", round_, rounds_, traces_,
           traces_ == 1 ? "trace" : "traces", human_count(new_tokens - tokens_before_),
           human_seconds(now - round_start_),
           rate_of_tokens(new_tokens - tokens_before_, now - round_start_));
  ++round_;
  tokens_before_ = new_tokens;
  round_start_ = now;
}

void RsaProgress::ended(const Rsa::Ended& trace, int64_t new_tokens) {
  ++done_;
  int64_t& so_far = in_round_[static_cast<size_t>(trace.round)];
  ++so_far;
  if (questions_ == 1 && so_far == traces_) round_is_over(new_tokens, steady_seconds());
  show(new_tokens);
}

std::string RsaProgress::text_of_round(int64_t new_tokens, double now) const {
  const int64_t of_round = round_ <= rounds_ ? in_round_[static_cast<size_t>(round_)] : traces_;
  return format("round {} of {}: {} of {} traces, {} tokens, {}", std::min(round_, rounds_),
                rounds_, of_round, traces_, human_count(new_tokens - tokens_before_),
                rate_of_tokens(new_tokens - tokens_before_, now - round_start_));
}

ProgressState RsaProgress::state(int64_t new_tokens, double now) const {
  return {.what = format("{} of {} questions, {}", answered_, questions_,
                         rate_of_tokens(new_tokens, now - start_)),
          .unit = "traces",
          .done = done_,
          .total = (questions_ * (rounds_ + 1) - known_rounds_) * traces_,
          .seconds = now - start_};
}

void RsaProgress::show(int64_t new_tokens) {
  if (log_level() > LogLevel::info) return;
  const double now = steady_seconds();
  if (now < next_) return;
  next_ = now + (live_ ? kRsaLiveInterval : kRsaPlainInterval);
  const bool one = questions_ == 1;
  if (live_) {
    set_live_line(one ? text_of_round(new_tokens, now)
                      : progress_bar(state(new_tokens, now), terminal_width()));
  } else {
    log_info("{}", one ? text_of_round(new_tokens, now) : progress_line(state(new_tokens, now)));
  }
}

}  // namespace tephra
