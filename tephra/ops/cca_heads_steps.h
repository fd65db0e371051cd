// SPDX-License-Identifier: Apache-2.0
// cca_heads by the kernels of its three steps: the CPU's way, and a GPU's for shapes that the fused
// kernels do not take. `run` runs a kernel where its tensors are.
#pragma once

#include "tephra/ops/cca_heads.h"
#include "tephra/ops/qk_mean.h"

namespace tephra::kernel {

template <class Run>
void cca_heads_steps(const CcaHeads& k, const Run& run) {
  const CcaHeadsForm& f = k.form;
  Tensor mean = empty_like(k.z), normed = empty_like(k.z);
  Tensor length({k.z.rows(), f.nq + f.nk}, acc_dtype(k.z.dtype()), k.z.device());
  run(QkMean{k.z, k.y, f.nq, f.nk, mean});
  run(QkNorm{mean, k.temp, f.nq, f.nk, f.temperature, normed, length});
  run(Rope{normed, k.position_N, f.rope, false, {k.out, false}});
}

template <class Run>
void cca_heads_grad_steps(const CcaHeadsGrad& k, const Run& run) {
  const CcaHeadsForm& f = k.form;
  Tensor mean = empty_like(k.z), normed = empty_like(k.z), d = empty_like(k.z);
  Tensor length({k.z.rows(), f.nq + f.nk}, acc_dtype(k.z.dtype()), k.z.device());
  run(QkMean{k.z, k.y, f.nq, f.nk, mean});
  run(QkNorm{mean, k.temp, f.nq, f.nk, f.temperature, normed, length});
  run(Rope{k.dout, k.position_N, f.rope, true, {d, false}});
  Tensor dmean = normed;  // no longer needed
  run(QkNormGrad{d, mean, k.temp, length, f.nq, f.nk, f.temperature, {dmean, false}, k.dtemp});
  if (k.dz.grad) run(QkMeanGrad{dmean, f.nq, f.nk, k.dz});
  if (!k.dy.grad) return;
  if (k.dy.accumulate) {
    run(AddInto{k.dy.grad, dmean});
  } else {
    copy_into(k.dy.grad, dmean);
  }
}

}  // namespace tephra::kernel
