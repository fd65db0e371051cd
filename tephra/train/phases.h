// SPDX-License-Identifier: Apache-2.0
// The phases of a run as a pure function of the step: which data, how much, at what rate. Nothing
// is counted along the way, so a run that is resumed, or rolled back, asks for the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tephra/optim/schedule.h"
#include "tephra/train/config.h"

namespace tephra {

// One step of training, counted from 0.
struct StepInfo {
  int64_t step = 0;
  int64_t phase = 0;
  int64_t step_in_phase = 0;
  int64_t first_sample = 0;  // within the phase
  int64_t samples = 0;       // of `context` tokens
  int64_t context = 0;
  int64_t tokens_before = 0;  // of all steps before this one
  double lr = 0;

  int64_t tokens() const { return samples * context; }
};

class Phases {
 public:
  explicit Phases(const std::vector<PhaseSettings>& settings);

  int64_t steps() const { return ends_.back(); }
  int64_t tokens() const { return tokens_ends_.back(); }
  int64_t count() const { return static_cast<int64_t>(phases_.size()); }
  const PhaseSettings& settings(int64_t phase) const { return phases_[static_cast<size_t>(phase)]; }
  int64_t steps_of(int64_t phase) const;
  int64_t samples_of(int64_t phase) const;

  StepInfo at(int64_t step) const;

  // A line for each phase: steps, tokens, context, batch, rates.
  std::string table() const;

 private:
  // Samples of the steps before `step` of a phase.
  int64_t samples_before(size_t phase, int64_t step) const;
  int64_t samples_at(size_t phase, int64_t step) const;

  std::vector<PhaseSettings> phases_;
  std::vector<Schedule> schedules_;
  std::vector<std::vector<int64_t>> ramps_;  // samples before each step of a phase's ramp, and all
  std::vector<int64_t> ends_, tokens_ends_;  // steps and tokens up to the end of each phase
};

}  // namespace tephra
