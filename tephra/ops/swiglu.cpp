// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/swiglu.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor swiglu(const Tensor& x) {
  require(x.ndim() == 2 && x.cols() % 2 == 0,
          "swiglu: x must be [tokens, 2 * width], the gate first, got {}", x.shape());

  Tensor y({x.rows(), x.cols() / 2}, x.dtype(), x.device());
  launch(x.device(), "swiglu", kernel::Swiglu{x, y});

  if (!Tape::current()) return y;
  record(
      {.name = "swiglu", .op_class = OpClass::activation, .inputs = {x}, .saved = {x}}, {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        launch(saved[0].device(), "swiglu", kernel::SwigluGrad{dy[0], saved[0], sink.target(0)});
      },
      [](const Tensors& in) -> Tensors { return {swiglu(in[0])}; });
  return y;
}

}  // namespace tephra
