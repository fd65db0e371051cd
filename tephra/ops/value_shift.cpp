// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/value_shift.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"
#include "tephra/ops/segment_rows.h"

namespace tephra {

Tensor value_shift(const Tensor& v, const Segments& given, const Tensor& left) {
  require_tokens("value_shift", "v", v, given);
  const Segments segments = to_device(given, v.device());
  require(v.cols() % 2 == 0, "value_shift: v must have an even width, got {}", v.shape());
  if (left && left.ndim() == 3) {
    require_state("value_shift", left, {segments.count, 1, v.cols() / 2}, v.dtype());
  } else {
    require_state("value_shift", left, {segments.count, v.cols() / 2}, v.dtype());
  }

  Tensor out = empty_like(v);
  launch(v.device(), "value_shift", kernel::ValueShift{v, segments, left, out});

  if (!Tape::current()) return out;
  record(
      {.name = "value_shift",
       .op_class = OpClass::qk,
       .inputs = with_segments({v, left}, segments),
       .saved = with_segments({}, segments)},
      {&out},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        const GradTarget dv = sink.target_if_wanted(0), dleft = sink.target_if_wanted(1);
        launch(dy[0].device(), "value_shift",
               kernel::ValueShiftGrad{dy[0], segments_after(saved, 0), dv.grad, dv.accumulate,
                                      dleft.grad, dleft.accumulate});
      },
      [](const Tensors& in) -> Tensors {
        return {value_shift(in[0], segments_after(in, 2), in[1])};
      });
  return out;
}

}  // namespace tephra
