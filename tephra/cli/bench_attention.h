// SPDX-License-Identifier: Apache-2.0
// The speed of whole attention layers, projections included, on one causal sequence of random
// tokens: compressed convolutional attention beside multi-head attention of the same stream width,
// both through this program's own kernels.
#pragma once

#include <string>
#include <vector>

#include "tephra/core/dtype.h"
#include "tephra/device/device.h"

namespace tephra {

// A form of attention: its queries and keys are 1 / compression of the stream's width.
struct AttentionForm {
  std::string name;
  int64_t query_compression, key_compression;
  bool convolutional;
};

// Multi-head attention first: the others are compared with it.
std::vector<AttentionForm> attention_forms();

struct AttentionBenchOptions {
  Device device;
  DType dtype = DType::bf16;
  int64_t width = 2048;
  double seconds = 0.2;  // of each figure
};

// Seconds are medians. FLOPs are those of the projections, the convolutions and causal attention;
// backward they are 2 and (for attention) 2.5 times as many.
struct AttentionSpeed {
  double forward_seconds = 0, backward_seconds = 0;
  double forward_flops = 0, backward_flops = 0;
};

// One layer of this form with heads of `head_dim` on `tokens` tokens.
AttentionSpeed measure_attention(const AttentionForm& form, int64_t head_dim, int64_t tokens,
                                 const AttentionBenchOptions& options);

}  // namespace tephra
