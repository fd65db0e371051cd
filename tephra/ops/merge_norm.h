// SPDX-License-Identifier: Apache-2.0
// The residual merge and the norm that reads it, in one pass over the data.
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"
#include "tephra/ops/dispatch.h"

namespace tephra {

// Each [H]. The residual pair is undefined where the stream begins.
struct ResidualScale {
  Tensor hidden_scale, hidden_bias, residual_scale, residual_bias;
};

struct MergedNorm {
  Tensor stream;  // [N, H], acc dtype
  Tensor normed;  // [N, H], like x
};

// stream' = (x + hidden_bias) * hidden_scale + (stream + residual_bias) * residual_scale, without
// the second term where `stream` is undefined; normed = rms_norm(stream', norm_weight, eps).
// `stream` is kept in the acc dtype of x and all arithmetic is done in it.
MergedNorm merge_norm(const Tensor& x, const Tensor& stream, const ResidualScale& scale,
                      const Tensor& norm_weight, double eps);

// The same of x = combine_rows(rows), or of rows.y where nobody routed. A GPU reads each row where
// its expert has left it and leaves its gradient there, so that x never exists.
MergedNorm merge_norm(const RoutedRows& rows, const Tensor& stream, const ResidualScale& scale,
                      const Tensor& norm_weight, double eps);

namespace kernel {

// How x is to be read; undefined weights: as it lies.
struct Routes {
  DispatchPlan plan;
  Tensor weight_N;

  explicit operator bool() const { return weight_N.defined(); }
};

struct MergeNorm {
  const Tensor& x;
  Routes routes;
  const Tensor& stream;  // may be undefined
  const ResidualScale& scale;
  const Tensor& weight;
  double eps;
  Tensor& merged;
  Tensor& normed;
  Tensor& rstd;  // [N], acc dtype

  void on_cpu() const;
  void on_gpu(gpu::Stream& gpu_stream) const;
};

// Computes the merged stream again from x and stream, which the gradients of the scales need
// anyway: nothing more is kept, nothing more is read. A target's gradient is undefined when not
// wanted.
struct MergeNormGrad {
  const Tensor& dmerged;  // this or dnormed may be undefined
  const Tensor& dnormed;
  const Tensor& x;
  Routes routes;
  const Tensor& stream;  // may be undefined
  ResidualScale scale;
  const Tensor& weight;
  const Tensor& rstd;
  GradTarget dx, droute_weight, dstream;
  GradTarget dhidden_scale, dhidden_bias, dresidual_scale, dresidual_bias;
  GradTarget dweight;

  bool wants_vectors() const {
    return dhidden_scale.grad || dhidden_bias.grad || dresidual_scale.grad || dresidual_bias.grad ||
           dweight.grad;
  }
  void on_cpu() const;
  void on_gpu(gpu::Stream& gpu_stream) const;
};

}  // namespace kernel
}  // namespace tephra
