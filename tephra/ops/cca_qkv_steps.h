// SPDX-License-Identifier: Apache-2.0
// cca_qkv by the kernels of its steps: the CPU's way, and a GPU's for what the fused kernels do not
// take. `run` runs a kernel where its tensors are.
#pragma once

#include "tephra/ops/cca_qkv.h"
#include "tephra/ops/depthwise_conv.h"
#include "tephra/ops/grouped_conv.h"
#include "tephra/ops/value_shift.h"

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

// Columns of queries and keys, and those of values.
inline Tensor heads_of(const Tensor& x, const CcaHeadsForm& form) {
  return x ? x.column_view(0, form.channels()) : Tensor();
}
inline Tensor values_of(const Tensor& x, const CcaHeadsForm& form) {
  return x ? x.column_view(form.channels(), x.cols()) : Tensor();
}

template <class Run>
void cca_qkv_steps(const CcaQkv& k, const Run& run) {
  const Tensor z = heads_of(k.z, k.form), v = values_of(k.z, k.form);
  Tensor heads = heads_of(k.out, k.form), values = values_of(k.out, k.form);
  const CcaConvolved c = cca_convolved(z, k.convs, k.segments, run);
  run(CcaHeads{z, c.y, k.temp, k.segments.position_N, k.form, heads});
  if (v.cols() > 0) run(ValueShift{v, k.segments, Tensor(), values});
}

template <class Run>
void cca_qkv_grad_steps(const CcaQkvGrad& k, const Run& run) {
  const Tensor z = heads_of(k.z, k.form), dheads = heads_of(k.dout, k.form);
  const GradTarget dz{heads_of(k.dz.grad, k.form), k.dz.accumulate};
  const CcaConvolved c = cca_convolved(z, k.convs, k.segments, run);
  const Tensor dy = empty_like(z), du = empty_like(z);
  run(CcaHeadsGrad{
      dheads, z, c.y, k.temp, k.segments.position_N, k.form, dz, {dy, false}, k.dtemp});
  const Tensor dlead = c.lead ? empty_like(c.lead) : Tensor();
  run(GroupedConvGrad{dy, c.u, k.convs.weight1, k.segments, c.lead, du, false, k.dweight1.grad,
                      k.dweight1.accumulate, k.dbias1.grad, k.dbias1.accumulate, dlead, false});
  run(DepthwiseConvGrad{du, dlead, z, k.convs.weight0, k.segments, Tensor(),
                        k.convs.weight1.dim(2) - 1, dz.grad, true, k.dweight0.grad,
                        k.dweight0.accumulate, k.dbias0.grad, k.dbias0.accumulate, Tensor(),
                        false});
  const Tensor dv = values_of(k.dz.grad, k.form);
  if (!dv || dv.cols() == 0) return;
  run(ValueShiftGrad{values_of(k.dout, k.form), k.segments, dv, k.dz.accumulate, Tensor(), false});
}

}  // namespace tephra::kernel
