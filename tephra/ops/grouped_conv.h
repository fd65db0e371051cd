// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/segments.h"

namespace tephra {

// Causal convolution along the segment, dense within each group of d channels (a head), K taps, the
// last one on the newest token; with h the group of output c:
//   y_t[c] = bias[c] + sum_k sum_i weight[c, i, k] * u_{t-K+1+k}[h * d + i]
// u is [N, C], weight [C, d, K], bias [C]. Before a segment's first row come the rows of `left`
// [B, K-1, C], oldest first; zeros when undefined. On a CPU the weight may be bf16 beside f32, when
// no gradient is wanted.
Tensor grouped_conv(const Tensor& u, const Tensor& weight, const Tensor& bias,
                    const Segments& segments, const Tensor& left);

namespace kernel {

struct GroupedConv {
  const Tensor& u;       // [N, C]
  const Tensor& weight;  // [C, d, K]
  const Tensor& bias;    // [C]
  const Segments& segments;
  const Tensor& left;  // [B, K-1, C] or undefined
  Tensor& y;           // [N, C]

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct GroupedConvGrad {
  const Tensor& dy;
  const Tensor& u;
  const Tensor& weight;
  const Segments& segments;
  const Tensor& left;
  // Undefined when not wanted.
  Tensor du;
  bool accumulate_du;
  Tensor dweight;  // acc dtype
  bool accumulate_dweight;
  Tensor dbias;  // acc dtype
  bool accumulate_dbias;
  Tensor dleft;
  bool accumulate_dleft;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
