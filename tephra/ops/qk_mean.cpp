// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/qk_mean.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor qk_mean(const Tensor& z, const Tensor& y, int64_t nq, int64_t nk) {
  require(nk > 0 && nq > 0 && nq % nk == 0,
          "qk_mean: query heads must be a multiple of key heads, got {} and {}", nq, nk);
  require(z.ndim() == 2 && z.cols() % (nq + nk) == 0,
          "qk_mean: z must be [tokens, ({} + {}) * head_dim], got {}", nq, nk, z.shape());
  require(y.shape() == z.shape() && y.dtype() == z.dtype(),
          "qk_mean: y must be {} {} like z, got {} {}", z.dtype(), z.shape(), y.dtype(), y.shape());

  Tensor out = empty_like(z);
  launch(z.device(), "qk_mean", kernel::QkMean{z, y, nq, nk, out});

  if (!Tape::current()) return out;
  record(
      {.name = "qk_mean", .op_class = OpClass::qk, .inputs = {z, y}, .saved = {}}, {&out},
      [=](const Tensors&, const Tensors& dout, GradSink& sink) {
        if (sink.wants(0)) {
          launch(dout[0].device(), "qk_mean", kernel::QkMeanGrad{dout[0], nq, nk, sink.target(0)});
        }
        // Last: what is given away may be added to.
        if (sink.wants(1)) sink.give(1, dout[0]);
      },
      [=](const Tensors& in) -> Tensors { return {qk_mean(in[0], in[1], nq, nk)}; });
  return out;
}

}  // namespace tephra
