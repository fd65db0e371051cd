// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/score.h"

#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace tephra {
namespace {

// By trying every choice of k out of n, of which the first `right` are right.
double pass_by_counting(int64_t n, int64_t right, int64_t k) {
  int64_t passed = 0, all = 0;
  for (uint32_t chosen = 0; chosen < (1u << n); ++chosen) {
    if (__builtin_popcount(chosen) != k) continue;
    ++all;
    passed += (chosen & ((1u << right) - 1)) != 0 ? 1 : 0;
  }
  return static_cast<double>(passed) / static_cast<double>(all);
}

TEST(Score, PassAtKIsTheShareOfChoicesThatHoldARightOne) {
  for (int64_t n = 1; n <= 8; ++n) {
    for (int64_t right = 0; right <= n; ++right) {
      for (int64_t k = 1; k <= n; ++k) {
        EXPECT_NEAR(pass_at_k(n, right, k), pass_by_counting(n, right, k), 1e-14)
            << n << " " << right << " " << k;
      }
    }
  }
  // Where binomials overflow: 1 - C(990, 500) / C(1000, 500).
  EXPECT_NEAR(pass_at_k(1000, 10, 500), 0.999066812198, 1e-12);
  EXPECT_EQ(message_of([] { pass_at_k(4, 1, 5); }),
            "pass@k: expected 1 <= k <= n and 0 <= right <= n, got k 5, n 4, right 1");
}

TEST(Score, WilsonsIntervalIsTheOneOfTheBooks) {
  // Newcombe (1998), table I: 81 of 263 and 15 of 148, 0 of 20, 1 of 29.
  const auto expect = [](int64_t right, int64_t n, double low, double high) {
    const Interval i = wilson(static_cast<double>(right) / static_cast<double>(n), n);
    EXPECT_NEAR(i.low, low, 5e-5);
    EXPECT_NEAR(i.high, high, 5e-5);
  };
  expect(81, 263, 0.2553, 0.3662);
  expect(15, 148, 0.0624, 0.1605);
  expect(0, 20, 0.0000, 0.1611);
  expect(1, 29, 0.0061, 0.1718);
  EXPECT_EQ(wilson(0, 3).low, 0);
  EXPECT_EQ(wilson(1, 3).high, 1);
  EXPECT_EQ(wilson(0, 0).low, 0);
  EXPECT_EQ(wilson(0, 0).high, 1);
}

Problem tried(std::vector<bool> right) {
  Problem p;
  for (const bool r : right) {
    p.attempts.push_back(
        {.text = "", .given = "", .tokens = r ? 10 : 20, .finish = FinishReason::eos, .right = r});
  }
  return p;
}

TEST(Score, SummarizesProblemsNotAttempts) {
  std::vector<Problem> problems = {tried({true, false, false, true}),
                                   tried({false, false, false, false}),
                                   tried({true, true, true, true})};
  problems[1].attempts[0].finish = FinishReason::length;
  const std::vector<int64_t> ks = {1, 2, 4};
  const Score s = summarize(problems, ks);
  EXPECT_EQ(s.problems, 3);
  EXPECT_EQ(s.samples, 4);
  EXPECT_EQ(s.right, 6);
  EXPECT_EQ(s.cut, 1);
  EXPECT_DOUBLE_EQ(s.accuracy, 0.5);
  EXPECT_DOUBLE_EQ(s.mean_tokens, 15);
  EXPECT_DOUBLE_EQ(s.pass_at[0].second, 0.5);
  EXPECT_DOUBLE_EQ(s.pass_at[1].second, (5.0 / 6 + 0 + 1) / 3);
  EXPECT_DOUBLE_EQ(s.pass_at[2].second, 2.0 / 3);
  EXPECT_DOUBLE_EQ(s.interval.low, wilson(0.5, 3).low);
  EXPECT_EQ(summarize({}, ks).problems, 0);
}

}  // namespace
}  // namespace tephra
