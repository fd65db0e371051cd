// SPDX-License-Identifier: Apache-2.0
// Softmax attention with grouped query heads, in online form: scores exist one tile at a time, so
// memory grows with the number of tokens and not with its square.
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/segments.h"
#include "tephra/core/tensor.h"

namespace tephra {

struct AttentionOutput {
  Tensor o;    // [N, nq * value_dim]
  Tensor lse;  // [N, nq], acc dtype: log of the sum of exp of the scaled scores
};

// Query row i sees key rows [first[i], last[i]) of k and v. Query head h reads KV head
// h / (nq / nk). A row that sees nothing gets o = 0 and lse = -inf, and gives no gradient.
// q is [N, nq * head_dim], k [M, nk * head_dim] and v [M, nk * value_dim]; a value may be wider or
// narrower than a key.
AttentionOutput attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const KeyRanges& ranges, int64_t head_dim, double scale);

namespace kernel {

struct Attention {
  const Tensor& q;
  const Tensor& k;
  const Tensor& v;
  const KeyRanges& ranges;
  int64_t head_dim;
  double scale;
  Tensor& o;
  Tensor& lse;

  int64_t kv_heads() const { return k.cols() / head_dim; }
  int64_t value_dim() const { return v.cols() / kv_heads(); }

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// With P = exp(scale * q k^T - lse), dP = do v^T and delta = sum(do * o) - dlse:
//   dS = scale * P * (dP - delta),  dq = dS k,  dk = dS^T q,  dv = P^T do.
struct AttentionGrad {
  const Tensor& d_o;   // undefined when only lse has a gradient
  const Tensor& dlse;  // undefined when only o has one
  const Tensor& q;
  const Tensor& k;
  const Tensor& v;
  const Tensor& o;
  const Tensor& lse;
  KeyRanges ranges;
  int64_t head_dim;
  double scale;
  GradTarget dq, dk, dv;  // undefined when not wanted

  int64_t kv_heads() const { return k.cols() / head_dim; }
  int64_t value_dim() const { return v.cols() / kv_heads(); }

  // What tiles add to: the gradients in the acc dtype.
  struct Sums {
    Tensor dq, dk, dv;
  };

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
