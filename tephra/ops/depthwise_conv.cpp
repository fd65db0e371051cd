// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/depthwise_conv.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"
#include "tephra/ops/segment_rows.h"

namespace tephra {
namespace {

constexpr size_t kInputs = 4;  // z, weight, bias, left; then the segments

void check(const Tensor& z, const Tensor& weight, const Tensor& bias, const Segments& segments,
           const Tensor& left, int64_t lead_rows) {
  require_tokens("depthwise_conv", "z", z, segments);
  require(
      weight.ndim() == 3 && weight.dim(0) == z.cols() && weight.dim(1) == 1 && weight.dim(2) >= 1,
      "depthwise_conv: weight must be [{}, 1, taps] to match z {}, got {}", z.cols(), z.shape(),
      weight.shape());
  require(bias.shape() == Shape{z.cols()},
          "depthwise_conv: bias must be [{}] to match z {}, got {}", z.cols(), z.shape(),
          bias.shape());
  require(weight.dtype() == z.dtype() && bias.dtype() == z.dtype(),
          "depthwise_conv: weight is {} and bias {}, z is {}", weight.dtype(), bias.dtype(),
          z.dtype());
  require(lead_rows >= 0, "depthwise_conv: lead_rows cannot be negative, got {}", lead_rows);
  require_state("depthwise_conv", left, {segments.count, weight.dim(2) - 1 + lead_rows, z.cols()},
                z.dtype());
}

void backward(const Tensors& saved, const Tensors& dy, GradSink& sink, int64_t lead_rows) {
  const Segments segments = segments_after(saved, 3);
  GradTarget target[kInputs];
  for (size_t i = 0; i < kInputs; ++i) target[i] = sink.target_if_wanted(i);
  const Tensor dlead = lead_rows > 0 ? dy[1] : Tensor();
  launch(saved[0].device(), "depthwise_conv",
         kernel::DepthwiseConvGrad{dy[0], dlead, saved[0], saved[1], segments, saved[2], lead_rows,
                                   target[0].grad, target[0].accumulate, target[1].grad,
                                   target[1].accumulate, target[2].grad, target[2].accumulate,
                                   target[3].grad, target[3].accumulate});
}

}  // namespace

ConvOutput depthwise_conv(const Tensor& z, const Tensor& weight, const Tensor& bias,
                          const Segments& given, const Tensor& left, int64_t lead_rows) {
  check(z, weight, bias, given, left, lead_rows);
  const Segments segments = to_device(given, z.device());
  ConvOutput out;
  out.y = empty_like(z);
  if (lead_rows > 0) {
    out.lead = Tensor({segments.count, lead_rows, z.cols()}, z.dtype(), z.device());
  }
  launch(z.device(), "depthwise_conv",
         kernel::DepthwiseConv{z, weight, bias, segments, left, out.y, out.lead});

  if (!Tape::current()) return out;
  const OpRecord op = {.name = "depthwise_conv",
                       .op_class = OpClass::convolution,
                       .inputs = with_segments({z, weight, bias, left}, segments),
                       .saved = with_segments({z, weight, left}, segments)};
  const auto back = [lead_rows](const Tensors& saved, const Tensors& dy, GradSink& sink) {
    backward(saved, dy, sink, lead_rows);
  };
  const auto replay = [lead_rows](const Tensors& in) -> Tensors {
    const ConvOutput again =
        depthwise_conv(in[0], in[1], in[2], segments_after(in, kInputs), in[3], lead_rows);
    return {again.y, again.lead};
  };
  if (lead_rows > 0) {
    record(op, {&out.y, &out.lead}, back, replay);
  } else {
    record(op, {&out.y}, back, replay);
  }
  return out;
}

}  // namespace tephra
