// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/guard.h"

#include <gtest/gtest.h>

#include <limits>

namespace tephra {
namespace {

GuardSettings settings(double spike) {
  GuardSettings s;
  s.spike = spike;
  s.window = 8;
  s.most_skips = 2;
  return s;
}

TEST(Guard, RefusesWhatIsNotFinite) {
  Guard guard(settings(0));
  EXPECT_EQ(guard.judge(1.0, true), "");
  EXPECT_NE(guard.judge(std::numeric_limits<double>::quiet_NaN(), true), "");
  EXPECT_NE(guard.judge(1.0, false), "");
  EXPECT_EQ(guard.judge(1e9, true), "");  // a spike, but nobody asked
  EXPECT_EQ(guard.recent_skips(), 2);
  EXPECT_FALSE(guard.exhausted());
  EXPECT_NE(guard.judge(1.0, false), "");
  EXPECT_TRUE(guard.exhausted());
}

TEST(Guard, FindsASpikeAboveItsWindow) {
  Guard guard(settings(3));
  for (const double loss : {2.0, 2.1, 1.9, 2.0}) EXPECT_EQ(guard.judge(loss, true), "");
  EXPECT_EQ(guard.judge(2.2, true), "");  // within 3 * 0.0707
  EXPECT_NE(guard.judge(3.0, true), "");
  EXPECT_EQ(guard.judge(2.0, true), "");  // the spike is not in the window
}

TEST(Guard, ForgetsBadStepsWithTheWindow) {
  Guard guard(settings(0));
  guard.judge(1.0, false);
  for (int i = 0; i < 7; ++i) guard.judge(1.0, true);
  EXPECT_EQ(guard.recent_skips(), 1);
  guard.judge(1.0, true);
  EXPECT_EQ(guard.recent_skips(), 0);
}

TEST(Guard, JudgesAlikeAfterARestart) {
  Guard guard(settings(3));
  for (const double loss : {2.0, 2.1, 1.9, 2.05, 1.95}) guard.judge(loss, true);
  guard.judge(2.0, false);
  Guard restored(settings(3));
  restored.restore(Json::parse(guard.state().dump(), "state"), "state");
  EXPECT_EQ(restored.recent_skips(), 1);
  EXPECT_EQ(restored.state().dump(), guard.state().dump());
  EXPECT_EQ(restored.judge(2.3, true), guard.judge(2.3, true));
}

}  // namespace
}  // namespace tephra
