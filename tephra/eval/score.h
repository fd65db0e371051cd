// SPDX-License-Identifier: Apache-2.0
// Shares of right answers: intervals, pass@k, and the summary of a group of problems.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "tephra/eval/problem.h"

namespace tephra {

struct Interval {
  double low = 0, high = 1;
};

// Wilson's 95 % interval for a share seen in `count` independent trials.
Interval wilson(double share, int64_t count);

// The chance that at least one of k samples is right, estimated without bias from `right` of n
// samples: 1 - C(n - right, k) / C(n, k). k is at most n.
double pass_at_k(int64_t n, int64_t right, int64_t k);

struct Score {
  int64_t problems = 0;
  int64_t samples = 0;  // of each problem
  int64_t right = 0;    // attempts of all problems
  double accuracy = 0;  // mean over problems of the share of right attempts: avg@samples
  Interval interval;    // with one trial a problem, since attempts at one problem are alike
  std::vector<std::pair<int64_t, double>> pass_at;  // k, mean over problems
  double mean_tokens = 0;
  int64_t cut = 0;  // attempts that ended at their limit of tokens
};

// Every problem must have the same number of attempts, and each k at most so many.
Score summarize(std::span<const Problem> problems, std::span<const int64_t> ks);

}  // namespace tephra
