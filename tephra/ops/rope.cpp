// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/rope.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor rope(const Tensor& x, const Tensor& given_positions, const RopeForm& form) {
  const Tensor position_N = to_device(given_positions, x.device());
  require(x.ndim() == 2 && form.head_dim > 0 && x.cols() % form.head_dim == 0,
          "rope: x must be [tokens, heads * {}], got {}", form.head_dim, x.shape());
  require(position_N.dtype() == DType::i32 && position_N.shape() == Shape{x.rows()},
          "rope: position_N must be i32 [{}], one for each row of x {}, got {} {}", x.rows(),
          x.shape(), position_N.dtype(), position_N.shape());
  require(form.rotary_dim >= 0 && form.rotary_dim <= form.head_dim && form.rotary_dim % 2 == 0,
          "rope: rotary_dim must be even and between 0 and head_dim = {}, got {}", form.head_dim,
          form.rotary_dim);
  require(form.first >= 0 && form.first <= form.head_dim - form.rotary_dim,
          "rope: {} dimensions from {} on do not lie within a head of {}", form.rotary_dim,
          form.first, form.head_dim);
  require(form.theta > 0, "rope: theta must be positive, got {}", form.theta);

  Tensor y = empty_like(x);
  launch(x.device(), "rope", kernel::Rope{x, position_N, form, false, {y, false}});

  if (!Tape::current()) return y;
  record(
      {.name = "rope", .op_class = OpClass::qk, .inputs = {x, position_N}, .saved = {position_N}},
      {&y},
      [form](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        launch(dy[0].device(), "rope", kernel::Rope{dy[0], saved[0], form, true, sink.target(0)});
      },
      [form](const Tensors& in) -> Tensors { return {rope(in[0], in[1], form)}; });
  return y;
}

}  // namespace tephra
