// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/segments.h"

namespace tephra {

struct ConvOutput {
  Tensor y;     // [N, C]
  Tensor lead;  // [B, lead_rows, C], undefined when lead_rows is 0
};

// Causal convolution of each channel along its segment, K taps, the last one on the newest token:
//   y_t[c] = bias[c] + sum_k weight[c, 0, k] * z_{t-K+1+k}[c]
// Before a segment's first row come the rows of `left` [B, K-1+lead_rows, C], oldest first; zeros
// when undefined. `lead` holds the outputs at the lead_rows positions before the first row: the
// left state of a second convolution. Without a left state they equal the bias, not zero.
ConvOutput depthwise_conv(const Tensor& z, const Tensor& weight, const Tensor& bias,
                          const Segments& segments, const Tensor& left, int64_t lead_rows);

namespace kernel {

struct DepthwiseConv {
  const Tensor& z;       // [N, C]
  const Tensor& weight;  // [C, 1, K]
  const Tensor& bias;    // [C]
  const Segments& segments;
  const Tensor& left;  // [B, K-1+lead_rows, C] or undefined
  Tensor& y;           // [N, C]
  Tensor& lead;        // [B, lead_rows, C] or undefined

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct DepthwiseConvGrad {
  const Tensor& dy;     // undefined when it is zero
  const Tensor& dlead;  // undefined when it is zero
  const Tensor& z;
  const Tensor& weight;
  const Segments& segments;
  const Tensor& left;
  int64_t lead_rows;
  // Undefined when not wanted.
  Tensor dz;
  bool accumulate_dz;
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
