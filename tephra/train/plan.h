// SPDX-License-Identifier: Apache-2.0
// What a run will do and need, before it starts: `tephra train --plan`.
#pragma once

#include <string>
#include <vector>

#include "tephra/train/config.h"
#include "tephra/train/phases.h"

namespace tephra {

struct MemoryPlan {
  int64_t weights = 0;  // and buffers
  int64_t gradients = 0;
  int64_t optimizer = 0;    // moments, momentum, remainders
  int64_t activations = 0;  // at the peak of the largest micro-batch
  int64_t workspace = 0;    // Newton-Schulz, logits; on the CPU also the copy for checkpoints
  int64_t host = 0;         // beside a GPU: the copy that checkpoints are written from

  int64_t total() const { return weights + gradients + optimizer + activations + workspace; }
};

// Activations are not guessed: a forward and backward pass of the same widths with one and with two
// layers and a single expert is run on a few tokens, and its peak is extended to all layers and
// tokens, in which it is linear.
MemoryPlan plan_memory(const RunConfig& config, const Json& model_config, const Phases& phases,
                       Device device);

// `device` need not be there: a run may be planned elsewhere.
std::string plan_text(const RunConfig& config, const Json& model_config, const Phases& phases,
                      const Path& run_dir, Device device);

}  // namespace tephra
