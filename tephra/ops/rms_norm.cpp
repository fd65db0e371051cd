// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rms_norm.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  require(x.ndim() == 2, "rms_norm: x must be [tokens, width], got {}", x.shape());
  require(weight.shape() == Shape{x.cols()},
          "rms_norm: weight must be [{}] to match the last axis of x {}, got {}", x.cols(),
          x.shape(), weight.shape());
  require(weight.dtype() == x.dtype(), "rms_norm: weight is {}, x is {}", weight.dtype(),
          x.dtype());

  Tensor y = empty_like(x);
  Tensor rstd({x.rows()}, acc_dtype(x.dtype()), x.device());
  launch(x.device(), "rms_norm", kernel::RmsNorm{x, weight, eps, y, rstd});

  if (!Tape::current()) return y;
  record(
      {.name = "rms_norm",
       .op_class = OpClass::norm,
       .inputs = {x, weight},
       .saved = {x, weight, rstd}},
      {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        const Tensor &in = saved[0], &w = saved[1], &r = saved[2];
        GradTarget dx, dw;
        if (sink.wants(0)) dx = sink.target(0);
        if (sink.wants(1)) dw = sink.target(1);
        launch(
            in.device(), "rms_norm",
            kernel::RmsNormGrad{dy[0], in, w, r, dx.grad, dx.accumulate, dw.grad, dw.accumulate});
      },
      [eps](const Tensors& in) -> Tensors { return {rms_norm(in[0], in[1], eps)}; });
  return y;
}

}  // namespace tephra
