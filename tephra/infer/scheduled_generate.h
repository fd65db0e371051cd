// SPDX-License-Identifier: Apache-2.0
// Generation through the scheduler, as a server does it: how generate and batch_generate run on a
// GPU, where single tokens have kernels of their own.
#pragma once

#include "tephra/infer/batch_generate.h"
#include "tephra/infer/generate.h"

namespace tephra {

bool runs_by_scheduler(Model& model);

// As generate; the prompt is cut at blocks, whatever its prefill_chunk.
Generation scheduled_generate(Model& model, const std::vector<int32_t>& prompt,
                              const GenerateOptions& options);
// As batch_generate.
std::vector<BatchGeneration> scheduled_batch(Model& model,
                                             std::span<const GenerateRequest> requests,
                                             const BatchOptions& options);

}  // namespace tephra
