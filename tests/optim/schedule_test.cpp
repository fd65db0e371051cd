// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/message_of.h"

namespace tephra {
namespace {

TEST(Schedule, WarmsUpFromTheFirstStepHoldsAndDecaysToTheFloor) {
  const Schedule s = Schedule::warmup_stable_decay(
      {.peak = 8, .warmup = 4, .total = 20, .decay = 8, .floor = 2, .shape = Ramp::linear});
  EXPECT_EQ(s.at(1), 2) << "the first of four warm-up steps has a quarter of the peak";
  EXPECT_EQ(s.at(2), 4);
  EXPECT_EQ(s.at(4), 8);
  EXPECT_EQ(s.at(5), 8);
  EXPECT_EQ(s.at(12), 8);
  EXPECT_EQ(s.at(13), 8 - 6.0 / 8);
  EXPECT_EQ(s.at(16), 5);
  EXPECT_EQ(s.at(20), 2) << "the last step reaches the floor";
  EXPECT_EQ(s.at(1000), 2) << "and it holds";
  EXPECT_EQ(s.at(0), 0);
  EXPECT_EQ(s.length(), 20);
}

TEST(Schedule, DecaysByOneMinusTheSquareRoot) {
  const Schedule s = Schedule::warmup_stable_decay({.peak = 1, .total = 100, .decay = 100});
  EXPECT_EQ(s.at(25), 0.5);
  EXPECT_NEAR(s.at(81), 0.1, 1e-15);
  EXPECT_EQ(s.at(100), 0);
}

TEST(Schedule, FollowsHalfACosine) {
  const Schedule s = Schedule::cosine({.peak = 3, .warmup = 10, .total = 50, .floor = 1});
  EXPECT_EQ(s.at(5), 1.5);
  EXPECT_EQ(s.at(10), 3);
  EXPECT_NEAR(s.at(30), 2, 1e-15);
  EXPECT_NEAR(s.at(20), 2 + std::cos(std::acos(-1.0) / 4), 1e-15);
  EXPECT_EQ(s.at(50), 1);
}

TEST(Schedule, CountsInTokensAsWellAsInSteps) {
  const int64_t tokens = int64_t{12} << 40;
  const Schedule s = Schedule::warmup_stable_decay(
      {.peak = 1, .warmup = tokens / 4, .total = tokens, .decay = tokens / 4});
  EXPECT_EQ(s.at(tokens / 8), 0.5);
  EXPECT_EQ(s.at(tokens / 2), 1);
  EXPECT_EQ(s.at(tokens), 0);
}

TEST(Schedule, OfOneRateIsThatRateEverywhere) {
  EXPECT_EQ(Schedule::constant(0.5).at(0), 0.5);
  EXPECT_EQ(Schedule::constant(0.5).at(int64_t{1} << 60), 0.5);
  EXPECT_EQ(Schedule::constant(0.5).text("step"), "learning rate 0.5 throughout\n");
}

TEST(Schedule, NeedsNoDecayToBeValid) {
  const Schedule s = Schedule::warmup_stable_decay({.peak = 2, .warmup = 2, .total = 9});
  EXPECT_EQ(s.at(9), 2) << "the floor belongs to the decay";
}

TEST(Schedule, SaysWhatDoesNotFit) {
  EXPECT_EQ(message_of([] {
              Schedule::warmup_stable_decay({.peak = 1, .warmup = 6, .total = 10, .decay = 5});
            }),
            "schedule: expected warm-up and decay to fit into the 10 there are, got 6 and 5");
  EXPECT_EQ(message_of([] { Schedule::cosine({.peak = 1, .warmup = 10, .total = 10}); }),
            "schedule: expected a warm-up shorter than the 10 there are, got 10");
  EXPECT_EQ(message_of([] { Schedule::constant(-1); }),
            "schedule: expected a learning rate of 0 or more, got -1");
  EXPECT_EQ(message_of([] { Schedule::constant(1).hold(-3); }),
            "schedule: expected a length of 0 or more, got -3");
}

TEST(Schedule, DrawsItself) {
  const Schedule s = Schedule::warmup_stable_decay(
      {.peak = 8, .warmup = 8, .total = 24, .decay = 8, .shape = Ramp::linear});
  EXPECT_EQ(s.text("steps", 24),
            "steps 1 to 8: linear from 0 to 8\n"
            "steps 9 to 16: 8\n"
            "steps 17 to 24: linear from 8 to 0\n"
            "        8 |       *********\n"
            "          |      *         *\n"
            "          |     *           *\n"
            "          |    *             *\n"
            "          |   *               *\n"
            "          |  *                 *\n"
            "          | *                   *\n"
            "          |*                     **\n");
}

TEST(Ramp, HasNames) {
  for (const Ramp ramp : {Ramp::linear, Ramp::cosine, Ramp::sqrt}) {
    EXPECT_EQ(parse_ramp(to_text(ramp)), ramp);
  }
  EXPECT_FALSE(parse_ramp("steep"));
}

}  // namespace
}  // namespace tephra
