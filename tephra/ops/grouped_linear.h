// SPDX-License-Identifier: Apache-2.0
// One matrix per expert, each on its own rows.
#pragma once

#include "tephra/ops/dispatch.h"

namespace tephra {

// x [N, in] in plan order, weight [E, out, in]: the rows of expert e times weight[e]^T. Rows of
// skipped tokens are zero and have no gradient.
Tensor grouped_linear(const Tensor& x, const Tensor& weight, const DispatchPlan& plan);

namespace kernel {

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
