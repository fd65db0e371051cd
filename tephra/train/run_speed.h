// SPDX-License-Identifier: Apache-2.0
// How fast a run is, and what it waits for beside computing: the "timing" of its metrics
// (docs/formats/metrics.md) and the totals at its end.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tephra/base/json.h"

namespace tephra {

// FLOP/s that a rate is a share of; 0: not known.
struct Peaks {
  double gemm = 0;       // of the matrix library, measured
  double datasheet = 0;  // of the cores doing nothing but multiply-adds; a GPU's datasheet
  std::string datasheet_text = {};            // what it is made of
  std::function<double()> measure_gemm = {};  // once more; empty: the first time must do
};

// Work by its two definitions: products of the model with its head and causal attention, forward
// and backward; and 6 x the active parameters without the embedding.
struct StepWork {
  double tokens = 0;
  double model_flops = 0;
  double six_n_flops = 0;
};

struct StepTimes {
  double seconds = 0;  // of all of it
  double optimizer = 0;
  double data = 0;  // waiting for the batch
};

// Shares of the peaks, 0 where the peak is not known.
struct Mfu {
  double model = 0, six_n = 0;                      // of the measured peak
  double model_datasheet = 0, six_n_datasheet = 0;  // of the other
};
Mfu mfu(const StepWork& work, double seconds, const Peaks& peaks);

struct SpeedTotals {
  double first_step_seconds = 0;  // from the start of the process to the end of its first step
  double wall_seconds = 0;        // of the loop
  double step_seconds = 0;
  double optimizer_seconds = 0;
  double data_seconds = 0;
  double pause_seconds = 0;      // that checkpoints kept the loop waiting
  double worst_pause_share = 0;  // of the time between one regular checkpoint and the next
  StepWork work;

  double data_share() const { return wall_seconds > 0 ? data_seconds / wall_seconds : 0; }
  double pause_share() const { return wall_seconds > 0 ? pause_seconds / wall_seconds : 0; }
};

class RunSpeed {
 public:
  explicit RunSpeed(Peaks peaks) : peaks_(std::move(peaks)) {}

  void begin();  // the loop begins
  void add_step(const StepWork& work, const StepTimes& times);
  // A checkpoint kept the loop waiting. `regular`: it was due, the run is not being stopped.
  void add_pause(double seconds, bool regular);
  void end();

  // Since the line before; the next one begins here.
  Json line();
  Mfu last() const { return last_; }
  const Peaks& peaks() const { return peaks_; }  // the measured one may have risen
  const SpeedTotals& totals() const { return totals_; }

 private:
  void doubt_peak(double reached);

  Peaks peaks_;
  int measurements_ = 0;  // that steps asked for
  SpeedTotals totals_;
  SpeedTotals at_line_;  // when the line before was written
  double begin_ = 0, line_begin_ = 0, saved_ = 0;
  StepWork work_;
  StepTimes times_;
  Mfu last_;
  bool first_ = true, first_line_ = true;
};

// For the end of a run: what it waited for, and its mean MFU.
std::string waits_text(const SpeedTotals& totals, int64_t checkpoints);
std::string mfu_text(const SpeedTotals& totals, const Peaks& peaks);

}  // namespace tephra
