// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rope.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor rope(const Tensor& x, const Tensor& position_N, int64_t head_dim, int64_t rotary_dim,
            double theta) {
  require(x.ndim() == 2 && head_dim > 0 && x.cols() % head_dim == 0,
          "rope: x must be [tokens, heads * {}], got {}", head_dim, x.shape());
  require(position_N.dtype() == DType::i32 && position_N.shape() == Shape{x.rows()},
          "rope: position_N must be i32 [{}], one for each row of x {}, got {} {}", x.rows(),
          x.shape(), position_N.dtype(), position_N.shape());
  require(rotary_dim >= 0 && rotary_dim <= head_dim && rotary_dim % 2 == 0,
          "rope: rotary_dim must be even and between 0 and head_dim = {}, got {}", head_dim,
          rotary_dim);
  require(theta > 0, "rope: theta must be positive, got {}", theta);

  Tensor y = empty_like(x);
  launch(x.device(), "rope",
         kernel::Rope{x, position_N, head_dim, rotary_dim, theta, false, {y, false}});

  record(
      {.name = "rope", .op_class = OpClass::qk, .inputs = {x, position_N}, .saved = {position_N}},
      {&y},
      [=](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        launch(dy[0].device(), "rope",
               kernel::Rope{dy[0], saved[0], head_dim, rotary_dim, theta, true, sink.target(0)});
      },
      [=](const Tensors& in) -> Tensors {
        return {rope(in[0], in[1], head_dim, rotary_dim, theta)};
      });
  return y;
}

}  // namespace tephra
