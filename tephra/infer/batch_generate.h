// SPDX-License-Identifier: Apache-2.0
// Generation for many prompts at once. Sequences that end leave the batch and waiting prompts take
// their places, step by step. The tokens of a request depend on its prompt, its stream and the
// options alone, to the bit, whatever runs beside it: every pass is computed by the kernels for
// many rows, in which rows do not see each other
// (docs/decisions/0016-batches-in-one-kernel-class.md).
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tephra/infer/sampler.h"

namespace tephra {

struct GenerateRequest {
  std::vector<int32_t> prompt;
  int64_t max_new_tokens = 32;
  uint32_t stream = 0;  // draws differ between streams: several samples of one prompt
};

enum class FinishReason { eos, length, stopped };

std::string to_text(FinishReason reason);  // "eos", "length", "stop"

struct BatchGeneration {
  std::vector<int32_t> tokens;  // new ones, without the token that ended the text
  FinishReason finish = FinishReason::length;
};

struct BatchOptions {
  Sampling sampling;
  std::vector<int32_t> end_tokens;         // beside the model's own
  int64_t sequences = 64;                  // at most so many side by side
  int64_t cache_bytes = int64_t{4} << 30;  // fewer of them where their caches would be larger
  int64_t prefill_chunk = 256;             // tokens of one prompt per pass
  int64_t pass_tokens = 2048;              // tokens of all per pass, roughly
  // Called with every new token; false ends that request. The token stays part of the result.
  std::function<bool(size_t request, int32_t token)> on_token;
  // Called when a request has ended, in the order in which they end.
  std::function<void(size_t request, const BatchGeneration& result)> on_finish;
};

// One result per request. Fault::usage before any work when a request does not fit the model.
std::vector<BatchGeneration> batch_generate(Model& model, std::span<const GenerateRequest> requests,
                                            const BatchOptions& options);

}  // namespace tephra
