// SPDX-License-Identifier: Apache-2.0
// Chooses the next token from logits. A draw depends on the seed, the sequence and its position
// alone, so a seed gives the same text whatever else is in the batch.
#pragma once

#include <cstdint>
#include <span>

#include "tephra/models/model.h"

namespace tephra {

struct Sampling {
  double temperature = 0;  // 0: the likeliest token, always
  int64_t top_k = 0;       // 0: off
  double top_p = 1;        // keep the likeliest tokens until their mass reaches it
  double min_p = 0;        // drop tokens less likely than this share of the likeliest
  uint64_t seed = 0;
};

// Fault::usage naming the setting that makes no sense.
void check_sampling(const Sampling& sampling);

// One id of `logits` (one row over the vocabulary); ids from `usable` on are never chosen. Ties go
// to the lower id.
int32_t sample(std::span<const float> logits, int64_t usable, const Sampling& sampling,
               uint32_t sequence, uint64_t position);

}  // namespace tephra
