// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/autograd/variable.h"
#include "tephra/core/tensor.h"

namespace tephra {

struct LatentHeads {
  Tensor k;  // [N, heads * (own_dim + shared_dim)]
  Tensor v;  // [N, heads * value_dim]
};

// Keys and values of multi-head latent attention from what its latent expands to. Head h of
// x [N, heads * (own_dim + value_dim)] holds its own part of the key, then its value; `shared`
// [N, shared_dim] is the rest of every head's key:
//   k_h = [ x_h[0:own_dim] , shared ],   v_h = x_h[own_dim:].
LatentHeads latent_heads(const Tensor& x, const Tensor& shared, int64_t heads, int64_t own_dim);

namespace kernel {

struct LatentHeads {
  const Tensor& x;
  const Tensor& shared;
  int64_t heads, own_dim;
  Tensor& k;
  Tensor& v;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct LatentHeadsGrad {
  const Tensor& dk;  // undefined when it is zero
  const Tensor& dv;  // undefined when it is zero
  int64_t heads, own_dim, shared_dim, value_dim;
  GradTarget dx, dshared;  // undefined when not wanted

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
