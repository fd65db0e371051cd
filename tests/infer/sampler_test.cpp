// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "tephra/core/rng.h"

namespace tephra {
namespace {

// How often each id comes up over many positions.
std::map<int32_t, double> shares(const std::vector<float>& logits, const Sampling& sampling,
                                 int64_t usable = -1) {
  constexpr int kDraws = 20000;
  std::map<int32_t, double> count;
  const int64_t limit = usable < 0 ? static_cast<int64_t>(logits.size()) : usable;
  for (uint64_t i = 0; i < kDraws; ++i)
    count[sample(logits, limit, sampling, 0, i)] += 1.0 / kDraws;
  return count;
}

const std::vector<float> kLogits = {std::log(0.5f), std::log(0.25f), std::log(0.15f),
                                    std::log(0.1f)};

TEST(Sampler, IsGreedyAtTemperatureZeroAndBreaksTiesByTheLowerId) {
  EXPECT_EQ(sample(std::vector<float>{1, 3, 3, 2}, 4, {}, 0, 0), 1);
}

TEST(Sampler, FollowsTheProbabilities) {
  const auto share = shares(kLogits, {.temperature = 1});
  EXPECT_NEAR(share.at(0), 0.5, 0.015);
  EXPECT_NEAR(share.at(1), 0.25, 0.015);
  EXPECT_NEAR(share.at(3), 0.1, 0.01);
}

TEST(Sampler, SharpensWithALowTemperature) {
  const double total = 0.25 + 0.0625 + 0.0225 + 0.01;
  EXPECT_NEAR(shares(kLogits, {.temperature = 0.5}).at(0), 0.25 / total, 0.015);
}

TEST(Sampler, KeepsTopK) {
  const auto share = shares(kLogits, {.temperature = 1, .top_k = 2});
  EXPECT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(0), 2.0 / 3, 0.015);
}

TEST(Sampler, KeepsTheShortestRunThatReachesTopP) {
  EXPECT_EQ(shares(kLogits, {.temperature = 1, .top_p = 0.4}).size(), 1u);
  EXPECT_EQ(shares(kLogits, {.temperature = 1, .top_p = 0.6}).size(), 2u);
  EXPECT_EQ(shares(kLogits, {.temperature = 1, .top_p = 0.95}).size(), 4u);
}

TEST(Sampler, DropsTokensBelowMinP) {
  EXPECT_EQ(shares(kLogits, {.temperature = 1, .min_p = 0.4}).size(), 2u);
}

TEST(Sampler, NeverChoosesAPaddedId) {
  const std::vector<float> logits = {0, 1, 50, 60};
  EXPECT_EQ(sample(logits, 2, {}, 0, 0), 1);
  for (const auto& [id, share] : shares(logits, {.temperature = 2}, 2)) EXPECT_LT(id, 2);
}

TEST(Sampler, DependsOnSeedSequenceAndPositionAlone) {
  const Sampling a{.temperature = 1, .seed = 5}, b{.temperature = 1, .seed = 6};
  int differ_by_seed = 0, differ_by_sequence = 0;
  for (uint64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(sample(kLogits, 4, a, 3, i), sample(kLogits, 4, a, 3, i));
    differ_by_seed += sample(kLogits, 4, a, 3, i) != sample(kLogits, 4, b, 3, i);
    differ_by_sequence += sample(kLogits, 4, a, 3, i) != sample(kLogits, 4, a, 4, i);
  }
  EXPECT_GT(differ_by_seed, 50);
  EXPECT_GT(differ_by_sequence, 50);
}

TEST(Sampler, NamesTheSettingThatMakesNoSense) {
  EXPECT_THROW(check_sampling({.temperature = -1}), Error);
  EXPECT_THROW(check_sampling({.temperature = NAN}), Error);
  EXPECT_THROW(check_sampling({.top_k = -1}), Error);
  EXPECT_THROW(check_sampling({.min_p = 2}), Error);
  try {
    check_sampling({.top_p = 1.5});
    FAIL() << "accepted a share above 1";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "top-p: expected a share in (0, 1], got 1.5");
  }
}

TEST(Sampler, PenalisesWhatWasSaidAndWhatIsInThePrompt) {
  TokenCounts counts;
  counts.add_prompt(std::vector<int32_t>{0, 1});
  counts.add_said(1);
  counts.add_said(2);
  counts.add_said(2);
  counts.add_said(9);  // beyond the vocabulary: nothing to change
  std::vector<float> logits = {2, -2, 4, 1};
  adjust_logits(logits, {.repetition = 2, .frequency = 0.25, .presence = 0.5}, counts);
  // Repetition for all four, then presence once and frequency for each time it was said.
  EXPECT_EQ(logits, (std::vector<float>{1, -4 - 0.5f - 0.25f, 2 - 0.5f - 0.5f, 1}));
  logits = {2, -2, 4, 1};
  adjust_logits(logits, {}, counts);
  EXPECT_EQ(logits, (std::vector<float>{2, -2, 4, 1}));
}

TEST(Sampler, AddsTheBiasOfATokenAndBansByAnInfiniteOne) {
  std::vector<float> logits = {1, 2, 3};
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  adjust_logits(logits, {.bias = {{0, 5.0}, {2, kNever}, {7, 1.0}}}, {});
  EXPECT_EQ(sample(logits, 3, {}, 0, 0), 0);
  for (const auto& [id, share] : shares(logits, {.temperature = 10})) EXPECT_NE(id, 2);
}

TEST(Sampler, MasksAllButTheAllowed) {
  std::vector<float> logits(70, 1.0f);
  logits[3] = 9;
  const std::vector<uint64_t> allowed = {uint64_t{1} << 5, uint64_t{1} << (65 - 64)};
  mask_logits(logits, allowed);
  for (const auto& [id, share] : shares(logits, {.temperature = 1})) {
    EXPECT_TRUE(id == 5 || id == 65) << id;
  }
  mask_logits(logits, std::span(allowed).first(1));  // ids beyond the bits are impossible, too
  EXPECT_EQ(sample(logits, 70, {}, 0, 0), 5);
}

TEST(Sampler, GivesLogprobsOfTheUsableTokensInOrder) {
  std::vector<float> logits = kLogits;
  logits.push_back(50);  // padding: not usable
  const Logprobs l = logprobs(logits, 4, 2, 3);
  EXPECT_NEAR(l.chosen, std::log(0.15), 1e-6);
  ASSERT_EQ(l.top.size(), 3u);
  EXPECT_EQ(l.top[0].first, 0);
  EXPECT_EQ(l.top[2].first, 2);
  EXPECT_NEAR(l.top[1].second, std::log(0.25), 1e-6);
  EXPECT_EQ(logprobs(logits, 4, 2, 100).top.size(), 4u);
  EXPECT_TRUE(logprobs(logits, 4, 2, 0).top.empty());
}

TEST(Sampler, RefusesABrokenModel) {
  EXPECT_THROW(sample(std::vector<float>{NAN, NAN}, 2, {}, 0, 0), Error);
  EXPECT_THROW(sample(std::vector<float>{1, NAN, 2}, 3, {}, 0, 0), Error);
}

// A part of the row that has all that could be drawn is as good as the row, in any order.
TEST(Sampler, DrawsTheSameFromAPartOfTheRow) {
  std::vector<float> logits;
  for (int i = 0; i < 400; ++i) logits.push_back(static_cast<float>((i * 37 + 11) % 400) * 0.3f);
  for (const Sampling& s :
       {Sampling{.temperature = 0.7}, Sampling{.temperature = 1.5, .top_k = 9},
        Sampling{.temperature = 1, .top_p = 0.8}, Sampling{.temperature = 2, .min_p = 0.1}}) {
    const double least = least_drawn(s, *std::max_element(logits.begin(), logits.end()));
    std::vector<SampleCandidate> some;
    for (int32_t i = 399; i >= 0; --i) {
      const float logit = logits[static_cast<size_t>(i)];
      if (double(logit) >= least - 0.5) some.push_back({i, logit});
    }
    ASSERT_LT(some.size(), logits.size());
    for (uint64_t position = 0; position < 200; ++position) {
      EXPECT_EQ(sample_among(some, s, 3, position), sample(logits, 400, s, 3, position));
    }
  }
}

// Sorted whole, then walked: what a draw means, however little of it is sorted.
int32_t drawn_plainly(const std::vector<float>& logits, const Sampling& s, uint64_t position) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto logit = [&](int32_t id) { return double(logits[static_cast<size_t>(id)]); };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return logit(a) > logit(b); });
  const auto weight = [&](int32_t id) {
    return std::exp((logit(id) - logit(ids[0])) / s.temperature);
  };
  if (s.top_k > 0) ids.resize(std::min(ids.size(), static_cast<size_t>(s.top_k)));
  double total = 0, mass = 0;
  for (const int32_t id : ids) total += weight(id);
  size_t kept = 0;
  while (kept < ids.size() && mass < s.top_p * total) mass += weight(ids[kept++]);
  if (s.top_p < 1) ids.resize(kept), total = mass;
  double left = uniform({s.seed, 0, 0}, position) * total;
  for (const int32_t id : ids) {
    if ((left -= weight(id)) < 0) return id;
  }
  return ids.back();
}

TEST(Sampler, DrawsAsFromARowThatIsSortedWhole) {
  for (const double spread : {0.5, 3.0}) {  // nearly alike, and some that stand out
    std::vector<float> logits;
    for (uint64_t i = 0; i < 5000; ++i) {
      logits.push_back(static_cast<float>(spread * 4 * (uniform({5, 0, 0}, i) - 0.5)));
    }
    for (const Sampling& s : {Sampling{.temperature = 1}, Sampling{.temperature = 1, .top_k = 700},
                              Sampling{.temperature = 1, .top_p = 0.95},
                              Sampling{.temperature = 0.5, .top_k = 300, .top_p = 0.7}}) {
      for (uint64_t position = 0; position < 100; ++position) {
        EXPECT_EQ(sample(logits, 5000, s, 0, position), drawn_plainly(logits, s, position));
      }
    }
  }
}

}  // namespace
}  // namespace tephra
