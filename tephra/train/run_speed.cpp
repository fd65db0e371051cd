// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/run_speed.h"

#include <algorithm>

#include "tephra/base/clock.h"
#include "tephra/base/format.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/text.h"

namespace tephra {

Mfu mfu(const StepWork& work, double seconds, const Peaks& peaks) {
  const auto share = [&](double flops, double peak) {
    return peak > 0 && seconds > 0 ? flops / seconds / peak : 0;
  };
  return {share(work.model_flops, peaks.gemm), share(work.six_n_flops, peaks.gemm),
          share(work.model_flops, peaks.datasheet), share(work.six_n_flops, peaks.datasheet)};
}

void RunSpeed::begin() { begin_ = line_begin_ = saved_ = steady_seconds(); }

// A step does more than multiply, so one that comes near the peak says that something else ran
// while the peak was measured: it is measured once more, between steps. The larger figure holds;
// what a step reached is the least that the peak can be.
void RunSpeed::doubt_peak(double reached) {
  constexpr double kNear = 0.9;
  constexpr int kMostMeasurements = 10;
  if (peaks_.gemm <= 0 || reached < kNear * peaks_.gemm) return;
  const double before = peaks_.gemm;
  if (peaks_.measure_gemm && measurements_ < kMostMeasurements) {
    ++measurements_;
    peaks_.gemm = std::max(peaks_.gemm, peaks_.measure_gemm());
  }
  peaks_.gemm = std::max(peaks_.gemm, reached);
  if (peaks_.gemm > before) {
    log_info("the measured peak rises from {:.0f} to {:.0f} GFLOP/s: a step did {:.0f}",
             before / 1e9, peaks_.gemm / 1e9, reached / 1e9);
  }
}

void RunSpeed::add_step(const StepWork& work, const StepTimes& times) {
  if (first_) totals_.first_step_seconds = process_seconds();
  first_ = false;
  work_ = work;
  times_ = times;
  if (times.seconds > 0) doubt_peak(work.model_flops / times.seconds);
  last_ = mfu(work, times.seconds, peaks_);
  totals_.step_seconds += times.seconds;
  totals_.optimizer_seconds += times.optimizer;
  totals_.data_seconds += times.data;
  totals_.work.tokens += work.tokens;
  totals_.work.model_flops += work.model_flops;
  totals_.work.six_n_flops += work.six_n_flops;
}

void RunSpeed::add_pause(double seconds, bool regular) {
  const double now = steady_seconds();
  totals_.pause_seconds += seconds;
  if (regular) {
    totals_.worst_pause_share = std::max(totals_.worst_pause_share, seconds / (now - saved_));
  }
  saved_ = now;
}

void RunSpeed::end() { totals_.wall_seconds = steady_seconds() - begin_; }

Json RunSpeed::line() {
  const double now = steady_seconds();
  Json timing;
  timing["seconds"] = times_.seconds;
  timing["wall"] = now - line_begin_;
  timing["tokens_per_second"] = work_.tokens / times_.seconds;
  timing["mfu_model"] = last_.model;
  timing["mfu_6n"] = last_.six_n;
  timing["mfu_model_datasheet"] = last_.model_datasheet;
  timing["mfu_6n_datasheet"] = last_.six_n_datasheet;
  timing["optimizer"] = times_.optimizer;
  timing["data_wait"] = totals_.data_seconds - at_line_.data_seconds;
  timing["checkpoint_pause"] = totals_.pause_seconds - at_line_.pause_seconds;
  if (first_line_) timing["first_step"] = totals_.first_step_seconds;
  first_line_ = false;
  at_line_ = totals_;
  line_begin_ = now;
  return timing;
}

std::string waits_text(const SpeedTotals& t, int64_t checkpoints) {
  return format(
      "first step done {:.2f} s after the start; waited {:.2f} s for data ({:.2f} %) and {:.2f} s "
      "for {} checkpoints ({:.2f} %; at worst {:.2f} % of the time since the one before)",
      t.first_step_seconds, t.data_seconds, 100 * t.data_share(), t.pause_seconds, checkpoints,
      100 * t.pause_share(), 100 * t.worst_pause_share);
}

std::string mfu_text(const SpeedTotals& t, const Peaks& peaks) {
  const Mfu mean = mfu(t.work, t.step_seconds, peaks);
  std::string text = format("{} tokens/s in steps, {:.0f} % of their time the optimizer's",
                            human_count(static_cast<int64_t>(t.work.tokens / t.step_seconds)),
                            100 * t.optimizer_seconds / t.step_seconds);
  if (peaks.gemm > 0) {
    text += format("; MFU {:.1f} % of the measured peak of {:.0f} GFLOP/s (6N: {:.1f} %)",
                   100 * mean.model, peaks.gemm / 1e9, 100 * mean.six_n);
  }
  if (peaks.datasheet > 0) {
    text += format(", {:.1f} % (6N: {:.1f} %) of the theoretical {:.0f}: {}",
                   100 * mean.model_datasheet, 100 * mean.six_n_datasheet, peaks.datasheet / 1e9,
                   peaks.datasheet_text);
  }
  return text;
}

}  // namespace tephra
