// SPDX-License-Identifier: Apache-2.0
// The LM head fused with its loss: logits exist for some tokens at a time only.
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// scale * sum over targets >= 0 of ( log sum_v exp(logit_v) - logit_target ), [1] in the acc dtype,
// with logits = h weight^T + bias in the acc dtype; h is [N, H], weight [V, H], bias [V] or
// undefined. A target of -1 is ignored and costs nothing. Targets may lie on the host.
//
// When recorded, gradients are computed at once, so that logits are computed once: those of weight
// and bias, which must be leaves, are complete when this returns, and h's waits for backward. So
// backward must start here, with gradient 1.
Tensor linear_cross_entropy(const Tensor& h, const Tensor& weight, const Tensor& bias,
                            const Tensor& targets_N, double scale);

// The loss of each token, [N] in the acc dtype, 0 where ignored. Not recorded.
Tensor token_losses(const Tensor& h, const Tensor& weight, const Tensor& bias,
                    const Tensor& targets_N);

// On a GPU logits exist for so many rows at a time, in whole tiles: in f32 (4 bytes each, and bf16
// gradients beside them) 2,048 of them for the largest vocabulary in use, where bf16 exponentials
// take their place (2 bytes) 4,096.
int64_t gpu_logit_rows(int64_t rows, int64_t vocabulary, int64_t bytes);

namespace kernel {

struct LinearCrossEntropy {
  const Tensor& h;        // [N, H]
  const Tensor& weight;   // [V, H]
  const Tensor& bias;     // [V] or undefined
  const Tensor& targets;  // [N], i32
  Tensor& losses;         // [N], acc dtype
  // Gradients of scale * sum(losses), undefined when not wanted.
  double scale = 1;
  Tensor dh;       // like h, overwritten
  Tensor dweight;  // acc dtype
  bool accumulate_dweight = false;
  Tensor dbias;  // acc dtype
  bool accumulate_dbias = false;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// scale * sum of the losses, in double and in one fixed order.
struct ScaledSum {
  const Tensor& losses;  // acc dtype
  double scale;
  Tensor& loss;  // [1]

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
