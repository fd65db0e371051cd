// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/score.h"

#include <algorithm>
#include <cmath>

#include "tephra/base/error.h"

namespace tephra {

Interval wilson(double share, int64_t count) {
  if (count <= 0) return {};
  constexpr double kZ = 1.959963984540054;  // 97.5 % of the normal distribution lie below
  const double n = static_cast<double>(count);
  const double middle = share + kZ * kZ / (2 * n);
  const double spread = kZ * std::sqrt(share * (1 - share) / n + kZ * kZ / (4 * n * n));
  const double scale = 1 + kZ * kZ / n;
  // At 0 and 1 the bound is the share itself, but for rounding.
  return {share <= 0 ? 0 : (middle - spread) / scale, share >= 1 ? 1 : (middle + spread) / scale};
}

double pass_at_k(int64_t n, int64_t right, int64_t k) {
  require(right >= 0 && right <= n && k >= 1 && k <= n,
          "pass@k: expected 1 <= k <= n and 0 <= right <= n, got k {}, n {}, right {}", k, n,
          right);
  if (n - right < k) return 1;
  double all_wrong = 1;  // C(n - right, k) / C(n, k), factor by factor
  for (int64_t i = 0; i < k; ++i) {
    all_wrong *= static_cast<double>(n - right - i) / static_cast<double>(n - i);
  }
  return 1 - all_wrong;
}

Score summarize(std::span<const Problem> problems, std::span<const int64_t> ks) {
  Score score;
  for (const int64_t k : ks) score.pass_at.emplace_back(k, 0.0);
  score.problems = static_cast<int64_t>(problems.size());
  if (problems.empty()) return score;
  score.samples = static_cast<int64_t>(problems[0].attempts.size());
  double tokens = 0;
  for (const Problem& p : problems) {
    int64_t right = 0;
    for (const Attempt& a : p.attempts) {
      right += a.right ? 1 : 0;
      tokens += static_cast<double>(a.tokens);
      score.cut += a.finish == FinishReason::length ? 1 : 0;
    }
    TEPHRA_ASSERT(static_cast<int64_t>(p.attempts.size()) == score.samples,
                  "all problems of a group are tried equally often");
    score.right += right;
    for (auto& [k, pass] : score.pass_at) pass += pass_at_k(score.samples, right, k);
  }
  const double count = static_cast<double>(score.problems);
  const double attempts = count * static_cast<double>(std::max<int64_t>(1, score.samples));
  score.accuracy = static_cast<double>(score.right) / attempts;
  score.interval = wilson(score.accuracy, score.problems);
  for (auto& [k, pass] : score.pass_at) pass /= count;
  score.mean_tokens = tokens / attempts;
  return score;
}

}  // namespace tephra
