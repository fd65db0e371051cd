// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/mask_rows.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor mask_rows(const Tensor& x, const Tensor& given_mask) {
  const Tensor mask_N = to_device(given_mask, x.device());
  require(x.ndim() == 2, "mask_rows: x must be [tokens, width], got {}", x.shape());
  require(mask_N.dtype() == DType::i32 && mask_N.shape() == Shape{x.rows()},
          "mask_rows: mask must be i32 [{}] to match x {}, got {} {}", x.rows(), x.shape(),
          mask_N.dtype(), mask_N.shape());
  Tensor y = empty_like(x);
  launch(x.device(), "mask_rows", kernel::MaskRows{x, mask_N, y, false});
  record(
      {.name = "mask_rows", .op_class = OpClass::qk, .inputs = {x, mask_N}, .saved = {mask_N}},
      {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        const GradTarget dx = sink.target(0);
        launch(dy[0].device(), "mask_rows",
               kernel::MaskRows{dy[0], saved[0], dx.grad, dx.accumulate});
      },
      [](const Tensors& in) -> Tensors { return {mask_rows(in[0], in[1])}; });
  return y;
}

}  // namespace tephra
