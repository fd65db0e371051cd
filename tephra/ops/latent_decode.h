// SPDX-License-Identifier: Apache-2.0
// Multi-head latent attention on a cache of latents that are never expanded. With K_h and V_h the
// rows of head h in the matrix that would expand a latent c to its key and value,
//   q . (K_h c) = (K_h^T q) . c   and   sum_j p_j V_h c_j = V_h (sum_j p_j c_j),
// so that all heads attend to the one latent. For inference: not recorded.
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

// Queries as the latent sees them, [N, heads * (latent + rest)]: of each head of
// q [N, heads * (own_dim + rest)] the first own_dim become K_h^T q_h, the rest stays.
// `expand` is [heads * (own_dim + value_dim), latent].
Tensor absorb_queries(const Tensor& q, const Tensor& expand, int64_t heads, int64_t own_dim);

// Values of latents averaged by attention, o [N, heads * latent]: [N, heads * value_dim].
Tensor expand_values(const Tensor& o, const Tensor& expand, int64_t heads, int64_t own_dim);

namespace kernel {

struct AbsorbQueries {
  const Tensor& q;
  const Tensor& expand;
  int64_t heads, own_dim;
  Tensor& y;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct ExpandValues {
  const Tensor& o;
  const Tensor& expand;
  int64_t heads, own_dim;
  Tensor& y;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
