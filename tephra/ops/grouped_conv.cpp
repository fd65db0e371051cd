// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/grouped_conv.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"
#include "tephra/ops/segment_rows.h"

namespace tephra {
namespace {

constexpr size_t kInputs = 4;  // u, weight, bias, left; then the segments

void check(const Tensor& u, const Tensor& weight, const Tensor& bias, const Segments& segments,
           const Tensor& left) {
  require_tokens("grouped_conv", "u", u, segments);
  require(weight.ndim() == 3 && weight.dim(0) == u.cols() && weight.dim(2) >= 1,
          "grouped_conv: weight must be [{}, group width, taps] to match u {}, got {}", u.cols(),
          u.shape(), weight.shape());
  require(weight.dim(1) >= 1 && u.cols() % weight.dim(1) == 0,
          "grouped_conv: {} channels do not divide into groups of {}", u.cols(), weight.dim(1));
  require(bias.shape() == Shape{u.cols()}, "grouped_conv: bias must be [{}] to match u {}, got {}",
          u.cols(), u.shape(), bias.shape());
  const bool widened = u.device() == kCpu && u.dtype() == DType::f32 &&
                       weight.dtype() == DType::bf16 && !weight.variable();
  require((weight.dtype() == u.dtype() || widened) && bias.dtype() == u.dtype(),
          "grouped_conv: weight is {} and bias {}, u is {}", weight.dtype(), bias.dtype(),
          u.dtype());
  require_state("grouped_conv", left, {segments.count, weight.dim(2) - 1, u.cols()}, u.dtype());
}

}  // namespace

Tensor grouped_conv(const Tensor& u, const Tensor& weight, const Tensor& bias,
                    const Segments& given, const Tensor& left) {
  check(u, weight, bias, given, left);
  const Segments segments = to_device(given, u.device());
  Tensor y = empty_like(u);
  launch(u.device(), "grouped_conv", kernel::GroupedConv{u, weight, bias, segments, left, y});

  if (!Tape::current()) return y;
  record(
      {.name = "grouped_conv",
       .op_class = OpClass::convolution,
       .inputs = with_segments({u, weight, bias, left}, segments),
       .saved = with_segments({u, weight, left}, segments)},
      {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        GradTarget target[kInputs];
        for (size_t i = 0; i < kInputs; ++i) target[i] = sink.target_if_wanted(i);
        const Segments s = segments_after(saved, 3);
        launch(saved[0].device(), "grouped_conv",
               kernel::GroupedConvGrad{dy[0], saved[0], saved[1], s, saved[2], target[0].grad,
                                       target[0].accumulate, target[1].grad, target[1].accumulate,
                                       target[2].grad, target[2].accumulate, target[3].grad,
                                       target[3].accumulate});
      },
      [](const Tensors& in) -> Tensors {
        return {grouped_conv(in[0], in[1], in[2], segments_after(in, kInputs), in[3])};
      });
  return y;
}

}  // namespace tephra
