// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/add_bias.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor add_bias(const Tensor& x, const Tensors& biases) {
  int64_t width = 0;
  for (const Tensor& bias : biases) {
    require(bias.ndim() == 1 && bias.dtype() == x.dtype(),
            "add_bias: a bias must be {} with one axis, got {} {}", x.dtype(), bias.dtype(),
            bias.shape());
    width += bias.numel();
  }
  require(x.ndim() == 2 && x.cols() == width, "add_bias: biases of {} in all do not fit x {}",
          width, x.shape());

  Tensor y = empty_like(x);
  Tensors inputs = {x};
  for (int64_t at = 0; const Tensor& bias : biases) {
    const int64_t end = at + bias.numel();
    launch(x.device(), "add_bias",
           kernel::AddBias{x.column_view(at, end), bias, y.column_view(at, end)});
    inputs.push_back(bias);
    at = end;
  }
  record(
      {.name = "add_bias", .op_class = OpClass::linear, .inputs = inputs, .saved = biases}, {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        int64_t at = 0;
        for (size_t i = 0; i < saved.size(); ++i) {
          const int64_t end = at + saved[i].numel();
          if (sink.wants(i + 1)) {
            const GradTarget db = sink.target(i + 1);
            launch(dy[0].device(), "add_bias",
                   kernel::AddBiasGrad{dy[0].column_view(at, end), db.grad, db.accumulate});
          }
          at = end;
        }
        if (sink.wants(0)) sink.give(0, dy[0]);
      },
      [](const Tensors& in) -> Tensors {
        return {add_bias(in[0], Tensors(in.begin() + 1, in.end()))};
      });
  return y;
}

}  // namespace tephra
