// SPDX-License-Identifier: Apache-2.0
// Generation from token ids: prefill, then one token at a time.
#pragma once

#include <functional>
#include <vector>

#include "tephra/infer/sampler.h"

namespace tephra {

struct GenerateOptions {
  int64_t max_new_tokens = 32;
  Sampling sampling;
  bool stop_at_eos = true;
  int64_t prefill_chunk = 256;  // tokens per forward pass of the prompt, cut at absolute multiples
  // Called with every new token as it is chosen; false ends the generation.
  std::function<bool(int32_t)> on_token;
};

struct Generation {
  std::vector<int32_t> tokens;  // new ones; ends with the eos that stopped it, if one did
  bool stopped_at_eos = false;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

Generation generate(Model& model, const std::vector<int32_t>& prompt,
                    const GenerateOptions& options);

}  // namespace tephra
