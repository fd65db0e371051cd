// SPDX-License-Identifier: Apache-2.0
// One token through all layers as one kernel whose blocks stay (decode_pass_cuda.cu). The bits are
// those of the kernels that it stands for.
#pragma once

#include "tephra/models/zaya1/decode_gpu.h"

namespace tephra::zaya1 {

// What the kernel needs beside a step's own memory: layers as the plan has them, and room that is
// zeros before the first pass and left alone between passes.
struct DecodePassMemory {
  const DecodeLayer* layers;
  void* letters;
};

int64_t decode_pass_bytes();  // of the letters

// Whether device, shape and formats are for it.
bool decode_passes(const gpu::Stream& stream, const DecodePlan& plan, int rows);
void decode_pass(gpu::Stream& stream, const DecodePlan& plan, const DecodeWork& work, int rows,
                 const DecodePassMemory& memory);

}  // namespace tephra::zaya1
