// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/load.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

// Two streams of 64 tokens each, in so many events each, 10 ms apart.
StreamLoadReport report_of(size_t events) {
  StreamLoadReport r;
  r.streams = 2;
  r.tokens = 128;
  r.first_token = {0.1, 0.1};
  r.between.assign(2 * (events - 1), 0.01);
  return r;
}

TEST(AnswerRate, IsOfStreamsThatCameInManyEvents) {
  EXPECT_NEAR(answer_rate(report_of(64), 2).value(), 200, 1e-6);
  EXPECT_TRUE(answer_rate(report_of(16), 2).has_value());
}

// Servers may send many tokens in one event: what was asked for says nothing of how they come.
TEST(AnswerRate, IsNoneOfFewEventsHoweverManyTokensTheyHave) {
  EXPECT_EQ(answer_rate(report_of(15), 2), std::nullopt);
  EXPECT_EQ(answer_rate(report_of(1), 2), std::nullopt);
  EXPECT_EQ(answer_rate({}, 2), std::nullopt);
}

}  // namespace
}  // namespace tephra
