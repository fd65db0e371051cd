// SPDX-License-Identifier: Apache-2.0
// How far one model's next-token distributions are from another's, over the same text: what a
// quantisation, or another kind of arithmetic, has cost.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tephra/models/model.h"

namespace tephra {

// Tokens, and the first of them that is to be foretold: what comes before it is only read.
struct ComparedText {
  std::vector<int32_t> ids;
  int64_t first = 1;
};

// A long text in windows, each token foretold once.
std::vector<ComparedText> cut_text(const std::vector<int32_t>& ids, int64_t window);

struct Agreement {
  int64_t tokens = 0;
  int64_t same_choice = 0;  // positions where both have the same likeliest token
  // KL(reference || model) in nats.
  double mean_kl = 0, median_kl = 0, p99_kl = 0, max_kl = 0;
  // Cross-entropy of the text, in nats per token.
  double model_nats = 0, reference_nats = 0;

  double share_same_choice() const;
};

struct CompareOptions {
  // For messages: their folders.
  std::string model = "the model", reference = "the model that it is compared with";
  std::function<void(int64_t tokens)> on_compared;
};

// Both models have the same vocabulary. Usable ids alone are compared: padding rows are never
// sampled. Fault::data, naming the model, when logits are not finite.
Agreement compare_models(Model& model, Model& reference, std::span<const ComparedText> texts,
                         const CompareOptions& options = {});

}  // namespace tephra
