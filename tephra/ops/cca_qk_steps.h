// SPDX-License-Identifier: Apache-2.0
// cca_qk by the kernels of its steps: the CPU's way, and a GPU's for what the fused kernels do not
// take. `run` runs a kernel where its tensors are.
#pragma once

#include "tephra/ops/cca_qk.h"
#include "tephra/ops/depthwise_conv.h"
#include "tephra/ops/grouped_conv.h"

namespace tephra::kernel {

// The outputs of both convolutions; `lead` is what the second one sees before each document.
struct CcaConvolved {
  Tensor u, lead, y;
};

template <class Run>
CcaConvolved cca_convolved(const Tensor& z, const CcaConvs& convs, const Segments& segments,
                           const Run& run) {
  const int64_t lead_rows = convs.weight1.dim(2) - 1;
  CcaConvolved c{empty_like(z), {}, empty_like(z)};
  if (lead_rows > 0) {
    c.lead = Tensor({segments.count, lead_rows, z.cols()}, z.dtype(), z.device());
  }
  run(DepthwiseConv{z, convs.weight0, convs.bias0, segments, Tensor(), c.u, c.lead});
  run(GroupedConv{c.u, convs.weight1, convs.bias1, segments, c.lead, c.y});
  return c;
}

template <class Run>
void cca_qk_steps(const CcaQk& k, const Run& run) {
  const CcaConvolved c = cca_convolved(k.z, k.convs, k.segments, run);
  run(CcaHeads{k.z, c.y, k.temp, k.segments.position_N, k.form, k.out});
}

template <class Run>
void cca_qk_grad_steps(const CcaQkGrad& k, const Run& run) {
  const CcaConvolved c = cca_convolved(k.z, k.convs, k.segments, run);
  const Tensor dy = empty_like(k.z), du = empty_like(k.z);
  run(CcaHeadsGrad{
      k.dout, k.z, c.y, k.temp, k.segments.position_N, k.form, k.dz, {dy, false}, k.dtemp});
  const Tensor dlead = c.lead ? empty_like(c.lead) : Tensor();
  run(GroupedConvGrad{dy, c.u, k.convs.weight1, k.segments, c.lead, du, false, k.dweight1.grad,
                      k.dweight1.accumulate, k.dbias1.grad, k.dbias1.accumulate, dlead, false});
  run(DepthwiseConvGrad{du, dlead, k.z, k.convs.weight0, k.segments, Tensor(),
                        k.convs.weight1.dim(2) - 1, k.dz.grad, true, k.dweight0.grad,
                        k.dweight0.accumulate, k.dbias0.grad, k.dbias0.accumulate, Tensor(),
                        false});
}

}  // namespace tephra::kernel
