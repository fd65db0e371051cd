// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/merge_norm.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check_vector(const Tensor& v, const char* name, const Tensor& x) {
  require(v.defined(), "merge_norm: {} is missing", name);
  require(v.shape() == Shape{x.cols()},
          "merge_norm: {} must be [{}] to match the last axis of x {}, got {}", name, x.cols(),
          x.shape(), v.shape());
  require(v.dtype() == x.dtype(), "merge_norm: {} is {}, x is {}", name, v.dtype(), x.dtype());
}

void check(const Tensor& x, const Tensor& stream, const ResidualScale& s, const Tensor& weight) {
  require(x.ndim() == 2, "merge_norm: x must be [tokens, width], got {}", x.shape());
  check_vector(s.hidden_scale, "hidden_scale", x);
  check_vector(s.hidden_bias, "hidden_bias", x);
  check_vector(weight, "norm_weight", x);
  if (!stream) {
    require(!s.residual_scale && !s.residual_bias,
            "merge_norm: residual_scale and residual_bias need a stream, got none");
    return;
  }
  check_vector(s.residual_scale, "residual_scale", x);
  check_vector(s.residual_bias, "residual_bias", x);
  require(stream.shape() == x.shape(), "merge_norm: stream must be {} like x, got {}", x.shape(),
          stream.shape());
  require(stream.dtype() == acc_dtype(x.dtype()),
          "merge_norm: stream must be {} when x is {}, got {}", acc_dtype(x.dtype()), x.dtype(),
          stream.dtype());
}

}  // namespace

MergedNorm merge_norm(const Tensor& x, const Tensor& stream, const ResidualScale& s,
                      const Tensor& weight, double eps) {
  check(x, stream, s, weight);

  const DType acc = acc_dtype(x.dtype());
  Tensor merged(x.shape(), acc, x.device());
  Tensor normed = empty_like(x);
  Tensor rstd({x.rows()}, acc, x.device());
  launch(x.device(), "merge_norm",
         kernel::MergeNorm{x, stream, s, weight, eps, merged, normed, rstd});

  if (!Tape::current()) return {merged, normed};
  record(
      {.name = "merge_norm",
       .op_class = OpClass::norm,
       .inputs = {x, stream, s.hidden_scale, s.hidden_bias, s.residual_scale, s.residual_bias,
                  weight},
       .saved = {x, stream, s.hidden_scale, s.hidden_bias, s.residual_scale, s.residual_bias,
                 weight, rstd},
       .always_kept = 1},
      {&merged, &normed},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        launch(saved[0].device(), "merge_norm",
               kernel::MergeNormGrad{.dmerged = dy[0],
                                     .dnormed = dy[1],
                                     .x = saved[0],
                                     .stream = saved[1],
                                     .scale = {saved[2], saved[3], saved[4], saved[5]},
                                     .weight = saved[6],
                                     .rstd = saved[7],
                                     .dx = sink.target_if_wanted(0),
                                     .dstream = sink.target_if_wanted(1),
                                     .dhidden_scale = sink.target_if_wanted(2),
                                     .dhidden_bias = sink.target_if_wanted(3),
                                     .dresidual_scale = sink.target_if_wanted(4),
                                     .dresidual_bias = sink.target_if_wanted(5),
                                     .dweight = sink.target_if_wanted(6)});
      },
      [eps](const Tensors& in) -> Tensors {
        const MergedNorm out = merge_norm(in[0], in[1], {in[2], in[3], in[4], in[5]}, in[6], eps);
        return {out.stream, out.normed};
      });
  return {merged, normed};
}

}  // namespace tephra
