// SPDX-License-Identifier: Apache-2.0
// The line that a person watches while a model trains: redrawn on a terminal, elsewhere printed now
// and then, silent when the log is quiet.
#pragma once

#include <cstdint>
#include <string>

#include "tephra/train/run_speed.h"

namespace tephra {

struct LiveState {
  int64_t step = 0, steps = 0;  // done, in all
  std::string phase;            // empty when there is only one
  double loss = 0;
  double smooth_loss = 0;
  double lr = 0;
  double tokens_per_second = 0;
  Mfu mfu;
  int64_t memory_bytes = 0;
  double eta_seconds = 0;
};

std::string live_text(const LiveState& state);

class LiveLine {
 public:
  LiveLine();
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  void show(const LiveState& state);

 private:
  bool live_;
  double next_ = 0;
};

}  // namespace tephra
