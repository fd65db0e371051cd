// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from logits. A draw depends on the seed, the sequence and its position
// alone, so a seed gives the same text whatever else is in the batch.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tephra/models/model.h"

namespace tephra {

struct Sampling {
  double temperature = 0;  // 0: the likeliest token, always
  int64_t top_k = 0;       // 0: off
  double top_p = 1;        // keep the likeliest tokens until their mass reaches it
  double min_p = 0;        // drop tokens less likely than this share of the likeliest
  uint64_t seed = 0;
  // Applied to the logits before anything else. A logit of a token in the prompt or the answer is
  // divided by `repetition` where positive, else multiplied; each time a token was said takes
  // `frequency` from its logit, and the first one `presence`.
  double repetition = 1, frequency = 0, presence = 0;
  std::vector<std::pair<int32_t, double>> bias = {};  // added to the logits of these tokens

  bool has_penalties() const { return repetition != 1 || frequency != 0 || presence != 0; }
};

// How often each token was said, and which are in the prompt: what penalties need.
struct TokenCounts {
  std::unordered_map<int32_t, int64_t> said;  // 0: only in the prompt

  void add_prompt(std::span<const int32_t> ids);
  void add_said(int32_t id) { ++said[id]; }
};

// Fault::usage naming the setting that makes no sense.
void check_sampling(const Sampling& sampling);

// Applies penalties and bias to one row of logits.
void adjust_logits(std::span<float> logits, const Sampling& sampling, const TokenCounts& counts);

// Makes all ids impossible but those whose bit is set; ids beyond the bits are impossible, too.
void mask_logits(std::span<float> logits, std::span<const uint64_t> allowed);

// The natural logarithm of each probability that these logits give ids below `usable`: of `id`,
// and of the `top` likeliest, in order.
struct Logprobs {
  double chosen = 0;
  std::vector<std::pair<int32_t, double>> top;
};
Logprobs logprobs(std::span<const float> logits, int64_t usable, int32_t id, int64_t top);

inline constexpr const char* kLogitsNotFinite =
    "the model's logits are not finite; `tephra checkpoint verify` finds weights that are not";

// A logit below this is sure not to be drawn, when `best` is the largest.
double least_drawn(const Sampling& sampling, double best);

struct SampleCandidate {
  int32_t id;
  float logit;
};
// As sample, from a part of a row that has all logits of at least least_drawn, in any order; the
// temperature is above 0.
int32_t sample_among(std::span<const SampleCandidate> some, const Sampling& sampling,
                     uint32_t sequence, uint64_t position);

// One id of `logits` (one row over the vocabulary); ids from `usable` on are never chosen. Ties go
// to the lower id.
int32_t sample(std::span<const float> logits, int64_t usable, const Sampling& sampling,
               uint32_t sequence, uint64_t position);

}  // namespace tephra
