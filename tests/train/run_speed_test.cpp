// SPDX-License-Identifier: Apache-2.0
// Shares of peaks, and what a line of metrics says about the time since the one before.
#include "tephra/train/run_speed.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tephra/base/clock.h"
#include "tephra/train/live_line.h"

namespace tephra {
namespace {

const Peaks kPeaks{.gemm = 200, .datasheet = 400, .datasheet_text = "2 cores"};
const StepWork kWork{.tokens = 10, .model_flops = 100, .six_n_flops = 50};

TEST(RunSpeed, SharesBothPeaksByBothDefinitions) {
  const Mfu m = mfu(kWork, 2, kPeaks);
  EXPECT_DOUBLE_EQ(m.model, 0.25);
  EXPECT_DOUBLE_EQ(m.six_n, 0.125);
  EXPECT_DOUBLE_EQ(m.model_datasheet, 0.125);
  EXPECT_DOUBLE_EQ(m.six_n_datasheet, 0.0625);
  EXPECT_EQ(mfu(kWork, 2, {}).model, 0) << "of a peak that is not known";
}

TEST(RunSpeed, SaysEveryWaitInOneLineOnly) {
  RunSpeed speed(kPeaks);
  speed.begin();
  speed.add_step(kWork, {.seconds = 2, .optimizer = 0.5, .data = 0.25});
  const Json first = speed.line();
  EXPECT_GT(first.find("first_step")->number(), 0);
  EXPECT_DOUBLE_EQ(first.find("data_wait")->number(), 0.25);
  EXPECT_DOUBLE_EQ(first.find("checkpoint_pause")->number(), 0);
  EXPECT_DOUBLE_EQ(first.find("tokens_per_second")->number(), 5);
  EXPECT_DOUBLE_EQ(first.find("mfu_6n_datasheet")->number(), 0.0625);

  speed.add_pause(0.125, true);
  speed.add_step(kWork, {.seconds = 1, .optimizer = 0, .data = 0.5});  // not logged
  speed.add_step(kWork, {.seconds = 4, .optimizer = 0, .data = 0.5});
  const Json second = speed.line();
  EXPECT_EQ(second.find("first_step"), nullptr);
  EXPECT_DOUBLE_EQ(second.find("data_wait")->number(), 1);
  EXPECT_DOUBLE_EQ(second.find("checkpoint_pause")->number(), 0.125);
  EXPECT_DOUBLE_EQ(second.find("seconds")->number(), 4) << "of its own step";
  EXPECT_DOUBLE_EQ(speed.totals().data_seconds, 1.25);
  EXPECT_DOUBLE_EQ(speed.totals().work.tokens, 30);
}

// A peak that was measured while something else ran, as 50 instead of 120.
TEST(RunSpeed, MeasuresThePeakAgainWhenAStepComesNearIt) {
  int asked = 0;
  RunSpeed speed({.gemm = 50, .measure_gemm = [&] { return ++asked, 120.0; }});
  speed.begin();
  speed.add_step(kWork, {.seconds = 4});
  EXPECT_EQ(asked, 0) << "half of the peak is nothing to wonder at";
  speed.add_step(kWork, {.seconds = 1});
  EXPECT_EQ(asked, 1);
  EXPECT_DOUBLE_EQ(speed.peaks().gemm, 120);
  EXPECT_DOUBLE_EQ(speed.last().model, 100.0 / 120);
  speed.add_step(kWork, {.seconds = 0.5});
  EXPECT_DOUBLE_EQ(speed.last().model, 1) << "what a step reached, the peak is at least";
  for (int i = 0; i < 100; ++i) speed.add_step(kWork, {.seconds = 0.5});
  EXPECT_LE(asked, 10) << "it takes time";
}

TEST(RunSpeed, APeakThatCannotBeMeasuredAgainIsRaisedByAStep) {
  RunSpeed speed({.gemm = 50});
  speed.begin();
  speed.add_step(kWork, {.seconds = 1});
  EXPECT_DOUBLE_EQ(speed.last().model, 1);
  EXPECT_DOUBLE_EQ(speed.peaks().gemm, 100);
}

TEST(RunSpeed, ComparesAPauseWithTheTimeSinceTheOneBefore) {
  RunSpeed speed({});
  speed.begin();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  speed.add_pause(0.002, true);
  const double worst = speed.totals().worst_pause_share;
  EXPECT_GT(worst, 0);
  EXPECT_LE(worst, 0.1);
  speed.add_pause(0.002, false);  // the run is being stopped at once after it
  EXPECT_EQ(speed.totals().worst_pause_share, worst);
  EXPECT_DOUBLE_EQ(speed.totals().pause_seconds, 0.004);
  speed.end();
  EXPECT_GE(speed.totals().wall_seconds, 0.02);
}

TEST(RunSpeed, EndsWithWordsForPeople) {
  SpeedTotals t{.first_step_seconds = 0.5,
                .wall_seconds = 100,
                .step_seconds = 50,
                .optimizer_seconds = 5,
                .data_seconds = 0.25,
                .pause_seconds = 0.5,
                .worst_pause_share = 0.0075,
                .work = {.tokens = 1000, .model_flops = 5e10, .six_n_flops = 2.5e10}};
  EXPECT_EQ(
      waits_text(t, 4),
      "first step done 0.50 s after the start; waited 0.25 s for data (0.25 %) and 0.50 s for "
      "4 checkpoints (0.50 %; at worst 0.75 % of the time since the one before)");
  EXPECT_EQ(mfu_text(t, {.gemm = 2e9, .datasheet = 4e9, .datasheet_text = "2 cores"}),
            "20 tokens/s in steps, 10 % of their time the optimizer's; MFU 50.0 % of the measured "
            "peak of 2 GFLOP/s (6N: 25.0 %), 25.0 % (6N: 12.5 %) of the theoretical 4: 2 cores");
}

TEST(LiveText, ShowsBothPeaks) {
  LiveState s;
  s.step = 3;
  s.steps = 9;
  s.loss = 1.5;
  s.tokens_per_second = 1234;
  s.mfu = {.model = 0.6, .six_n = 0.5, .model_datasheet = 0.55, .six_n_datasheet = 0.45};
  EXPECT_NE(live_text(s).find("MFU 60|55 % (6N 50|45 %)"), std::string::npos) << live_text(s);
  s.mfu = {.model = 0.6, .six_n = 0.5};
  EXPECT_NE(live_text(s).find("MFU 60 % (6N 50 %)"), std::string::npos) << live_text(s);
  s.mfu = {};
  EXPECT_EQ(live_text(s).find("MFU"), std::string::npos);
}

TEST(Clock, KnowsHowLongTheProcessRuns) {
  const double before = process_seconds();
  EXPECT_GT(before, 0);
  EXPECT_LT(before, 3600);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_GE(process_seconds(), before + 0.015);
}

}  // namespace
}  // namespace tephra
