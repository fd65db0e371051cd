// SPDX-License-Identifier: Apache-2.0
// Watches the losses of a run for steps that would do harm.
#pragma once

#include <deque>
#include <string>

#include "tephra/base/json.h"
#include "tephra/train/config.h"

namespace tephra {

class Guard {
 public:
  explicit Guard(const GuardSettings& settings) : settings_(settings) {}

  // Why this step must not change the model, empty when it may. Remembers the verdict.
  std::string judge(double loss, bool finite_gradients);

  // Steps among the last `window` that were found bad.
  int64_t recent_skips() const;
  // Too many of them: the run should end.
  bool exhausted() const { return recent_skips() > settings_.most_skips; }

  // After a rollback: the losses are those of the checkpoint, the bad steps stay counted.
  void keep_verdicts(const Guard& of) { bad_ = of.bad_; }

  // What a checkpoint keeps, so that a resumed run judges alike.
  Json state() const;
  void restore(const Json& state, const std::string& where);

 private:
  double threshold() const;

  GuardSettings settings_;
  std::deque<double> losses_;  // of good steps, the last `window`
  std::deque<bool> bad_;       // of the last `window` steps
};

}  // namespace tephra
