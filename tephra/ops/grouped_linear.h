// SPDX-License-Identifier: Apache-2.0
// One matrix per expert, each on its own rows.
#pragma once

#include "tephra/core/weight.h"
#include "tephra/ops/dispatch.h"

namespace tephra {

// x [N, in] in plan order, weight [E, out, in]: the rows of expert e times weight[e]^T. Rows of
// skipped tokens are zero and have no gradient.
Tensor grouped_linear(const Tensor& x, const Tensor& weight, const DispatchPlan& plan);

// The same for a weight that may be packed; see linear.h.
Tensor grouped_linear(const Tensor& x, const Weight& weight, const DispatchPlan& plan);

namespace kernel {

struct PackedGroupedLinear {
  const Tensor& x;  // f32; on a GPU also bf16
  const Weight& weight;
  const Tensor& offsets;
  Tensor& y;

  void on_cpu() const;
  // Writes out the experts that have rows, and multiplies by those: for many rows.
  void on_gpu(gpu::Stream& stream) const;
};

struct GroupedLinear {
  const Tensor& x;
  const Tensor& weight;
  const Tensor& offsets;
  Tensor& y;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct GroupedLinearGrad {
  const Tensor& dy;
  const Tensor& x;
  const Tensor& weight;
  const Tensor& offsets;
  Tensor dx;  // undefined when not wanted
  bool accumulate_dx;
  Tensor dweight;  // [E, out, in], acc dtype; undefined when not wanted
  bool accumulate_dweight;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
