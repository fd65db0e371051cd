// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

struct Routing {
  Tensor weight_N;  // acc dtype: probability of the chosen class, not renormalised
  Tensor expert_N;  // i32, in [0, classes)
};

// The choice of one class per token. p = softmax(logits) in the acc dtype, the class is
// argmax(p + biases), the lowest index on a tie. `logits` is [N, classes], `biases` [classes] in
// the acc dtype: they steer the choice and carry no gradient. A NaN among the logits chooses class
// 0 with weight NaN.
Routing route(const Tensor& logits, const Tensor& biases);

namespace kernel {

struct Route {
  const Tensor& logits;  // [N, classes]
  const Tensor& biases;  // [classes], acc dtype
  Tensor& weight;        // [N], acc dtype
  Tensor& expert;        // [N], i32

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct RouteGrad {
  const Tensor& dweight;  // [N], acc dtype
  const Tensor& logits;
  const Tensor& expert;
  Tensor dlogits;
  bool accumulate;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
