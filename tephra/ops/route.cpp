// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/route.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Routing route(const Tensor& logits, const Tensor& biases) {
  require(logits.ndim() == 2 && logits.cols() >= 1,
          "route: logits must be [tokens, classes], got {}", logits.shape());
  require(biases.shape() == Shape{logits.cols()},
          "route: biases must be [{}] to match the classes of logits {}, got {}", logits.cols(),
          logits.shape(), biases.shape());
  require(biases.dtype() == acc_dtype(logits.dtype()),
          "route: biases must be {} for {} logits, got {}", acc_dtype(logits.dtype()),
          logits.dtype(), biases.dtype());

  Routing out{Tensor({logits.rows()}, biases.dtype(), logits.device()),
              Tensor({logits.rows()}, DType::i32, logits.device())};
  launch(logits.device(), "route", kernel::Route{logits, biases, out.weight_N, out.expert_N});

  if (!Tape::current()) return out;
  record(
      {.name = "route",
       .op_class = OpClass::router,
       .inputs = {logits, biases.detach()},
       .saved = {logits, out.expert_N},
       .always_kept = 1u << 1},
      {&out.weight_N, &out.expert_N},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        if (!sink.wants(0) || !dy[0]) return;
        const GradTarget dlogits = sink.target(0);
        launch(saved[0].device(), "route",
               kernel::RouteGrad{dy[0], saved[0], saved[1], dlogits.grad, dlogits.accumulate});
      },
      [](const Tensors& in) -> Tensors {
        const Routing again = route(in[0], in[1]);
        return {again.weight_N, again.expert_N};
      });
  return out;
}

}  // namespace tephra
