// SPDX-License-Identifier: Apache-2.0
// merge_norm of routed rows by combine_rows and the kernels of plain rows: the CPU's way, and a
// GPU's for what the fused kernels do not take. `run` runs a kernel where its tensors are.
#pragma once

#include "tephra/ops/merge_norm.h"

namespace tephra::kernel {

inline Tensor merge_scratch(const Tensor& x) {
  return {x.shape(), x.dtype(), x.device(), Purpose::workspace};
}

template <class Run>
Tensor combined_rows(const Tensor& y, const Routes& routes, const Run& run) {
  const Tensor none;
  Tensor x = merge_scratch(y);
  run(CombineRows{y, routes.weight_N, routes.plan.order_N, routes.plan.offsets, none, x});
  return x;
}

template <class Run>
void merge_norm_steps(const MergeNorm& k, const Run& run) {
  const Tensor x = combined_rows(k.x, k.routes, run);
  run(MergeNorm{x, {}, k.stream, k.scale, k.weight, k.eps, k.merged, k.normed, k.rstd});
}

template <class Run>
void merge_norm_grad_steps(const MergeNormGrad& k, const Run& run) {
  const Tensor x = combined_rows(k.x, k.routes, run), none;
  const bool wanted = k.dx.grad || k.droute_weight.grad;
  const Tensor dx = wanted ? merge_scratch(x) : Tensor();
  run(MergeNormGrad{.dmerged = k.dmerged,
                    .dnormed = k.dnormed,
                    .x = x,
                    .routes = {},
                    .stream = k.stream,
                    .scale = k.scale,
                    .weight = k.weight,
                    .rstd = k.rstd,
                    .dx = {dx, false},
                    .droute_weight = {},
                    .dstream = k.dstream,
                    .dhidden_scale = k.dhidden_scale,
                    .dhidden_bias = k.dhidden_bias,
                    .dresidual_scale = k.dresidual_scale,
                    .dresidual_bias = k.dresidual_bias,
                    .dweight = k.dweight});
  if (!wanted) return;
  run(CombineRowsGrad{dx, k.x, k.routes.weight_N, k.routes.plan.order_N, k.routes.plan.offsets,
                      none, k.dx.grad, k.dx.accumulate, k.droute_weight.grad,
                      k.droute_weight.accumulate, Tensor(), false});
}

}  // namespace tephra::kernel
