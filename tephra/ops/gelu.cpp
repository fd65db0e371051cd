// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/gelu.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor gelu(const Tensor& x) {
  require(x.ndim() == 2, "gelu: x must be [tokens, width], got {}", x.shape());

  Tensor y = empty_like(x);
  launch(x.device(), "gelu", kernel::Gelu{x, y});

  if (!Tape::current()) return y;
  record(
      {.name = "gelu", .op_class = OpClass::activation, .inputs = {x}, .saved = {x}}, {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        launch(saved[0].device(), "gelu", kernel::GeluGrad{dy[0], saved[0], sink.target(0)});
      },
      [](const Tensors& in) -> Tensors { return {gelu(in[0])}; });
  return y;
}

}  // namespace tephra
