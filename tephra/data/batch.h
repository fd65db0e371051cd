// SPDX-License-Identifier: Apache-2.0
// What a training step reads: packed documents on one token axis, and what each token is to
// predict.
#pragma once

#include <cstdint>
#include <vector>

#include "tephra/core/segments.h"

namespace tephra {

inline constexpr int32_t kNoTarget = -1;  // what the loss ignores

// One context of tokens.
struct Sample {
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;  // the next token of the same document, or kNoTarget
  std::vector<int64_t> lengths;  // of the documents, in order; they add up to the context
  int64_t padding = 0;           // tokens at the end that fill the context: the last document
};

// Samples one after another.
struct Batch {
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
  std::vector<int64_t> lengths;
  std::vector<int32_t> real;  // 0 for padding; empty when there is none
  int64_t samples = 0;
  int64_t predicted = 0;  // targets that count

  void add(const Sample& sample);
  int64_t tokens() const { return static_cast<int64_t>(inputs.size()); }
  Segments segments() const;
};

}  // namespace tephra
