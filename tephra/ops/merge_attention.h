// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/ops/attention.h"

namespace tephra {

// Attention over two disjoint sets of keys from the results over each: how split KV, ring and tree
// attention put their parts together. A part that saw no key has lse = -inf and counts for nothing.
AttentionOutput merge_attention(const AttentionOutput& a, const AttentionOutput& b);

namespace kernel {

// With weights w = exp(lse_part - lse): o = wa oa + wb ob.
struct MergeAttention {
  const AttentionOutput& a;
  const AttentionOutput& b;
  Tensor& o;
  Tensor& lse;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// doa = wa do and dlse_a = wa (dlse + wb sum(do (oa - ob))); the same for b with a and b exchanged.
struct MergeAttentionGrad {
  const Tensor& d_o;   // undefined when only lse has a gradient
  const Tensor& dlse;  // undefined when only o has one
  AttentionOutput a;
  AttentionOutput b;
  GradTarget doa, dlse_a, dob, dlse_b;  // undefined when not wanted

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
