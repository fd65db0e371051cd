// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/phases.h"

#include <algorithm>
#include <cmath>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr double kMostTokens = 1e18;  // all counts stay well within 64 bits

Schedule schedule_of(const PhaseSettings& p, int64_t steps) {
  const int64_t warmup = std::min(p.warmup_steps, steps);
  const int64_t decay = std::min(p.decay_steps.value_or(steps / 5), steps - warmup);
  const ScheduleOptions options{.peak = p.lr,
                                .warmup = warmup,
                                .total = steps,
                                .decay = p.schedule == "constant" ? 0 : decay,
                                .floor = p.lr * p.end_lr,
                                .start = p.lr * p.start_lr,
                                .shape = *parse_ramp(p.decay)};
  return p.schedule == "cosine" ? Schedule::cosine(options)
                                : Schedule::warmup_stable_decay(options);
}

// Samples before each step of the ramp, and of the whole ramp.
std::vector<int64_t> ramp_of(const PhaseSettings& p) {
  std::vector<int64_t> before{0};
  if (!p.batch_ramp_from) return before;
  const int64_t first = *p.batch_ramp_from / p.context, last = p.batch_tokens / p.context;
  for (int64_t s = 0; s < p.batch_ramp_steps; ++s) {
    const double t = static_cast<double>(s) / static_cast<double>(p.batch_ramp_steps);
    before.push_back(before.back() + first + std::llround(t * static_cast<double>(last - first)));
  }
  return before;
}

int64_t count_steps(const PhaseSettings& p, const std::vector<int64_t>& ramp) {
  if (p.steps) return *p.steps;
  const int64_t samples = ceil_div(*p.tokens, p.context);
  const auto in_ramp = std::lower_bound(ramp.begin(), ramp.end(), samples);
  if (in_ramp != ramp.end()) return std::max<int64_t>(1, in_ramp - ramp.begin());
  const int64_t rest = samples - ramp.back();
  return static_cast<int64_t>(ramp.size()) - 1 + ceil_div(rest, p.batch_tokens / p.context);
}

}  // namespace

Phases::Phases(const std::vector<PhaseSettings>& settings) : phases_(settings) {
  require(!settings.empty(), "the config has no [[phases]]: expected at least one");
  int64_t steps = 0, tokens = 0;
  for (size_t i = 0; i < phases_.size(); ++i) {
    const PhaseSettings& p = phases_[i];
    ramps_.push_back(ramp_of(p));
    const int64_t own = count_steps(p, ramps_.back());
    schedules_.push_back(schedule_of(p, own));
    require(static_cast<double>(tokens) +
                    static_cast<double>(own) * static_cast<double>(p.batch_tokens) <
                kMostTokens,
            "phase {} ({}): {} steps of {} tokens are more than can be counted", i + 1, p.name, own,
            p.batch_tokens);
    steps += own;
    tokens += samples_before(i, own) * p.context;
    ends_.push_back(steps);
    tokens_ends_.push_back(tokens);
  }
}

int64_t Phases::steps_of(int64_t phase) const {
  const auto i = static_cast<size_t>(phase);
  return ends_[i] - (i == 0 ? 0 : ends_[i - 1]);
}

int64_t Phases::samples_of(int64_t phase) const {
  return samples_before(static_cast<size_t>(phase), steps_of(phase));
}

int64_t Phases::samples_before(size_t phase, int64_t step) const {
  const std::vector<int64_t>& ramp = ramps_[phase];
  const int64_t ramp_steps = static_cast<int64_t>(ramp.size()) - 1;
  if (step <= ramp_steps) return ramp[static_cast<size_t>(step)];
  const PhaseSettings& p = phases_[phase];
  return ramp.back() + (step - ramp_steps) * (p.batch_tokens / p.context);
}

int64_t Phases::samples_at(size_t phase, int64_t step) const {
  return samples_before(phase, step + 1) - samples_before(phase, step);
}

StepInfo Phases::at(int64_t step) const {
  TEPHRA_ASSERT(step >= 0 && step < steps(), "a step of the run");
  const auto after = std::upper_bound(ends_.begin(), ends_.end(), step);
  const auto phase = static_cast<size_t>(after - ends_.begin());
  const int64_t own = step - (phase == 0 ? 0 : ends_[phase - 1]);
  const int64_t first = samples_before(phase, own);
  const int64_t context = phases_[phase].context;
  return {.step = step,
          .phase = static_cast<int64_t>(phase),
          .step_in_phase = own,
          .first_sample = first,
          .samples = samples_at(phase, own),
          .context = context,
          .tokens_before = (phase == 0 ? 0 : tokens_ends_[phase - 1]) + first * context,
          .lr = schedules_[phase].at(own + 1)};
}

std::string Phases::table() const {
  std::string out;
  for (int64_t i = 0; i < count(); ++i) {
    const PhaseSettings& p = settings(i);
    out += format("phase {} ({}): {} steps, {} tokens, context {}, {} tokens a step", i + 1, p.name,
                  steps_of(i), samples_of(i) * p.context, p.context, p.batch_tokens);
    if (p.batch_ramp_from) {
      out += format(" (from {} over {} steps)", *p.batch_ramp_from, p.batch_ramp_steps);
    }
    if (p.rope_theta) out += format(", RoPE base {}", *p.rope_theta);
    out += "\n" + schedules_[static_cast<size_t>(i)].text("steps");
  }
  return out;
}

}  // namespace tephra
