// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/tail_state.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"
#include "tephra/ops/segment_rows.h"

namespace tephra {

Tensor tail_state(const Tensor& z, const Segments& given, const Tensor& left, int64_t rows) {
  require_tokens("tail_state", "z", z, given);
  const Segments segments = to_device(given, z.device());
  require(rows >= 0, "tail_state: rows cannot be negative, got {}", rows);
  const Shape shape = {segments.count, rows, z.cols()};
  require_state("tail_state", left, shape, z.dtype());

  Tensor tail(shape, z.dtype(), z.device());
  launch(z.device(), "tail_state", kernel::TailState{z, segments, left, tail});

  if (!Tape::current()) return tail;
  record(
      {.name = "tail_state",
       .op_class = OpClass::convolution,
       .inputs = with_segments({z, left}, segments),
       .saved = with_segments({}, segments)},
      {&tail},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        const GradTarget dz = sink.target_if_wanted(0), dleft = sink.target_if_wanted(1);
        launch(dy[0].device(), "tail_state",
               kernel::TailStateGrad{dy[0], segments_after(saved, 0), dz.grad, dz.accumulate,
                                     dleft.grad, dleft.accumulate});
      },
      [rows](const Tensors& in) -> Tensors {
        return {tail_state(in[0], segments_after(in, 2), in[1], rows)};
      });
  return tail;
}

}  // namespace tephra
