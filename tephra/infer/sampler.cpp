// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace tephra {
namespace {

struct Candidate {
  int32_t id;
  double logit;
  double weight;  // relative to the likeliest, which has 1
};

// NaN wins, so that a broken model is noticed.
int32_t likeliest(std::span<const float> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size() && !std::isnan(logits[best]); ++i) {
    if (!(logits[i] <= logits[best])) best = i;
  }
  return static_cast<int32_t>(best);
}

// The likeliest first, sorted only as far as they are asked for: a large vocabulary has tens of
// thousands of candidates, and most draws end within the first few.
class LikeliestFirst {
 public:
  explicit LikeliestFirst(std::vector<Candidate>& all) : all_(all) {}

  const Candidate& operator[](size_t i) {
    while (i >= sorted_) sort_more();
    return all_[i];
  }

 private:
  static bool before(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }
  void sort_more() {
    const size_t end = std::min(all_.size(), std::max<size_t>(256, 8 * sorted_));
    const auto from = all_.begin() + std::ptrdiff_t(sorted_),
               to = all_.begin() + std::ptrdiff_t(end);
    if (to != all_.end()) std::nth_element(from, to, all_.end(), before);
    std::sort(from, to, before);
    sorted_ = end;
  }

  std::vector<Candidate>& all_;
  size_t sorted_ = 0;
};

// The same in any order, since nothing is rounded away on the way: each weight, at most 1, goes as
// multiples of 2^-34 and, what is left of it, of 2^-68 into sums of fewer than 2^53 such.
double sum_of_weights(const std::vector<Candidate>& candidates) {
  double high = 0, low = 0;
  for (const Candidate& c : candidates) {
    const double most = std::nearbyint(c.weight * 0x1p34) * 0x1p-34;
    high += most;
    low += std::nearbyint((c.weight - most) * 0x1p68) * 0x1p-68;
  }
  return high + low;
}

}  // namespace

void check_sampling(const Sampling& s) {
  require(std::isfinite(s.temperature) && s.temperature >= 0,
          "temperature: expected 0 or more, got {}", s.temperature);
  require(s.top_k >= 0, "top-k: expected 0 (off) or more, got {}", s.top_k);
  require(s.top_p > 0 && s.top_p <= 1, "top-p: expected a share in (0, 1], got {}", s.top_p);
  require(s.min_p >= 0 && s.min_p <= 1, "min-p: expected a share in [0, 1], got {}", s.min_p);
  require(std::isfinite(s.repetition) && s.repetition > 0,
          "repetition penalty: expected a number above 0, got {}", s.repetition);
  require(std::isfinite(s.frequency) && std::isfinite(s.presence),
          "frequency and presence penalty: expected numbers, got {} and {}", s.frequency,
          s.presence);
}

void TokenCounts::add_prompt(std::span<const int32_t> ids) {
  for (const int32_t id : ids) said.try_emplace(id, 0);
}

void adjust_logits(std::span<float> logits, const Sampling& s, const TokenCounts& counts) {
  if (s.has_penalties()) {
    for (const auto& [id, count] : counts.said) {
      if (static_cast<size_t>(id) >= logits.size()) continue;
      double logit = logits[static_cast<size_t>(id)];
      logit = logit > 0 ? logit / s.repetition : logit * s.repetition;
      if (count > 0) logit -= s.presence + s.frequency * static_cast<double>(count);
      logits[static_cast<size_t>(id)] = static_cast<float>(logit);
    }
  }
  for (const auto& [id, bias] : s.bias) {
    if (static_cast<size_t>(id) >= logits.size()) continue;
    float& logit = logits[static_cast<size_t>(id)];
    logit = static_cast<float>(double(logit) + bias);
  }
}

void mask_logits(std::span<float> logits, std::span<const uint64_t> allowed) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    const bool may = i / 64 < allowed.size() && (allowed[i / 64] >> (i % 64) & 1) != 0;
    if (!may) logits[i] = kNever;
  }
}

Logprobs logprobs(std::span<const float> logits, int64_t usable, int32_t id, int64_t top) {
  logits = logits.first(static_cast<size_t>(usable));
  const double most = logits[static_cast<size_t>(likeliest(logits))];
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit) - most);
  const double total = most + std::log(sum);
  const auto of = [&](int32_t i) { return double(logits[static_cast<size_t>(i)]) - total; };
  Logprobs result{.chosen = of(id), .top = {}};
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto count = std::min(static_cast<size_t>(top), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count), order.end(),
                    [&](int32_t a, int32_t b) {
                      const float x = logits[static_cast<size_t>(a)];
                      const float y = logits[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  for (size_t i = 0; i < count; ++i) result.top.emplace_back(order[i], of(order[i]));
  return result;
}

namespace {

// Below 1e-12 of the likeliest a token is never drawn in practice; leaving it out keeps the sort
// short on large vocabularies.
double least_weight(const Sampling& s) { return std::max(s.min_p, 1e-12); }

// Adds it unless it weighs too little.
void consider(std::vector<Candidate>& candidates, int32_t id, float logit, double best,
              const Sampling& s) {
  const double weight = std::exp((double(logit) - best) / s.temperature);
  if (weight >= least_weight(s)) candidates.push_back({id, logit, weight});
}

// Candidates in any order.
int32_t draw(std::vector<Candidate>& candidates, const Sampling& s, uint32_t sequence,
             uint64_t position) {
  double total = sum_of_weights(candidates);
  LikeliestFirst sorted(candidates);
  size_t kept = candidates.size();
  if (s.top_k > 0 && kept > static_cast<size_t>(s.top_k)) {
    kept = static_cast<size_t>(s.top_k);
    total = 0;
    for (size_t i = 0; i < kept; ++i) total += sorted[i].weight;
  }
  if (s.top_p < 1) {  // the shortest run of the likeliest whose share of the mass reaches it
    double mass = 0;
    size_t run = 0;
    while (run < kept && mass < s.top_p * total) mass += sorted[run++].weight;
    kept = run;
    total = mass;
  }
  double left = uniform({s.seed, sequence, 0}, position) * total;
  for (size_t i = 0; i < kept; ++i) {
    left -= sorted[i].weight;
    if (left < 0) return sorted[i].id;
  }
  return sorted[kept - 1].id;
}

}  // namespace

double least_drawn(const Sampling& s, double best) {
  return best + s.temperature * (std::log(least_weight(s)) - 1e-3);
}

int32_t sample_among(std::span<const SampleCandidate> some, const Sampling& s, uint32_t sequence,
                     uint64_t position) {
  double best = -std::numeric_limits<double>::infinity();
  for (const SampleCandidate& c : some) best = std::max(best, double(c.logit));
  require_data(std::isfinite(best), "{}", kLogitsNotFinite);
  const double least = least_drawn(s, best);
  std::vector<Candidate> candidates;
  for (const SampleCandidate& c : some) {
    if (double(c.logit) >= least) consider(candidates, c.id, c.logit, best, s);
  }
  return draw(candidates, s, sequence, position);
}

int32_t sample(std::span<const float> logits, int64_t usable, const Sampling& s, uint32_t sequence,
               uint64_t position) {
  logits = logits.first(static_cast<size_t>(usable));
  const int32_t best = likeliest(logits);
  require_data(std::isfinite(logits[best]), "{}", kLogitsNotFinite);
  if (s.temperature == 0) return best;

  // Anything below is sure to weigh less, so its exponential need not be computed.
  const double least = least_drawn(s, double(logits[best]));
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (double(logits[i]) < least) continue;
    consider(candidates, static_cast<int32_t>(i), logits[i], double(logits[best]), s);
  }
  return draw(candidates, s, sequence, position);
}

}  // namespace tephra
