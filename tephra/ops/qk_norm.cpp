// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/qk_norm.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {

Tensor qk_norm(const Tensor& x, const Tensor& temp, int64_t nq, int64_t nk, Temperature form) {
  require(nq > 0 && nk > 0 && x.ndim() == 2 && x.cols() % (nq + nk) == 0,
          "qk_norm: x must be [tokens, ({} + {}) * head_dim], got {}", nq, nk, x.shape());
  if (form == Temperature::none) {
    require(!temp.defined(), "qk_norm: expected no temp where there is no temperature, got {}",
            temp.shape());
  } else {
    require(temp.shape() == Shape{nk}, "qk_norm: temp must be [{}], one for each key head, got {}",
            nk, temp.shape());
    require(temp.dtype() == x.dtype(), "qk_norm: temp is {}, x is {}", temp.dtype(), x.dtype());
  }

  Tensor y = empty_like(x);
  Tensor length({x.rows(), nq + nk}, acc_dtype(x.dtype()), x.device());
  launch(x.device(), "qk_norm", kernel::QkNorm{x, temp, nq, nk, form, y, length});

  if (!Tape::current()) return y;
  record(
      {.name = "qk_norm", .op_class = OpClass::qk, .inputs = {x, temp}, .saved = {x, temp, length}},
      {&y},
      [=](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        launch(saved[0].device(), "qk_norm",
               kernel::QkNormGrad{dy[0], saved[0], saved[1], saved[2], nq, nk, form,
                                  sink.target_if_wanted(0), sink.target_if_wanted(1)});
      },
      [=](const Tensors& in) -> Tensors { return {qk_norm(in[0], in[1], nq, nk, form)}; });
  return y;
}

}  // namespace tephra
