// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/scaled_add.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor scaled_add(const Tensor& x, const Tensor& y, const Tensor& scale) {
  require(x.ndim() == 2, "scaled_add: x must be [tokens, width], got {}", x.shape());
  require(y.shape() == x.shape(), "scaled_add: y must be {} like x, got {}", x.shape(), y.shape());
  require(scale.shape() == Shape{x.cols()},
          "scaled_add: scale must be [{}] to match the last axis of x {}, got {}", x.cols(),
          x.shape(), scale.shape());
  require(y.dtype() == x.dtype() && scale.dtype() == x.dtype(),
          "scaled_add: y is {} and scale is {}, x is {}", y.dtype(), scale.dtype(), x.dtype());

  Tensor out = empty_like(x);
  launch(x.device(), "scaled_add", kernel::ScaledAdd{x, y, scale, out});

  if (!Tape::current()) return out;
  record(
      {.name = "scaled_add",
       .op_class = OpClass::router,
       .inputs = {x, y, scale},
       .saved = {y, scale}},
      {&out},
      [](const Tensors& saved, const Tensors& dout, GradSink& sink) {
        if (sink.wants(1) || sink.wants(2)) {
          launch(saved[0].device(), "scaled_add",
                 kernel::ScaledAddGrad{dout[0], saved[0], saved[1], sink.target_if_wanted(1),
                                       sink.target_if_wanted(2)});
        }
        // Last: what is given away may be added to.
        if (sink.wants(0)) sink.give(0, dout[0]);
      },
      [](const Tensors& in) -> Tensors { return {scaled_add(in[0], in[1], in[2])}; });
  return out;
}

}  // namespace tephra
