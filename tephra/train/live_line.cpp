// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/live_line.h"

#include <cmath>

#include "tephra/base/clock.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/terminal.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr double kLiveInterval = 0.1;
constexpr double kPlainInterval = 10;

// Of the measured peak, then of the datasheet's.
std::string mfu_part(const Mfu& m) {
  if (m.model <= 0) return "";
  if (m.model_datasheet <= 0) {
    return format("  MFU {:.0f} % (6N {:.0f} %)", 100 * m.model, 100 * m.six_n);
  }
  return format("  MFU {:.0f}|{:.0f} % (6N {:.0f}|{:.0f} %)", 100 * m.model,
                100 * m.model_datasheet, 100 * m.six_n, 100 * m.six_n_datasheet);
}

}  // namespace

std::string live_text(const LiveState& s) {
  std::string text = format("step {}/{}", s.step, s.steps);
  if (!s.phase.empty()) text += tephra::format(" {}", s.phase);
  text += format("  loss {:.4f} ({:.4f})  lr {:.2e}  {} tokens/s", s.loss, s.smooth_loss, s.lr,
                 human_count(std::llround(s.tokens_per_second)));
  text += mfu_part(s.mfu);
  text += format("  {}  {} left", human_bytes(s.memory_bytes), human_seconds(s.eta_seconds));
  return text;
}

LiveLine::LiveLine() : live_(stderr_is_terminal()) {}

LiveLine::~LiveLine() {
  if (live_) set_live_line("");
}

void LiveLine::show(const LiveState& state) {
  const double now = steady_seconds();
  const bool last = state.step == state.steps;
  if (log_level() > LogLevel::info || (now < next_ && !last)) return;
  next_ = now + (live_ ? kLiveInterval : kPlainInterval);
  const std::string text = live_text(state);
  if (live_ && !last) {
    set_live_line(clipped(text, static_cast<size_t>(terminal_width() - 1)));
  } else {
    log_line(LogLevel::info, text);
  }
}

}  // namespace tephra
