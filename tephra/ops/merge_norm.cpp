// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/merge_norm.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"
#include "tephra/ops/as_on_a_gpu.h"

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

void check_routes(const RoutedRows& rows) {
  const Tensor& y = rows.y;
  require(y.ndim() == 2 && rows.plan.order_N.numel() == y.rows(),
          "merge_norm: rows must be [{}, width] to match their plan, got {}",
          rows.plan.order_N.numel(), y.shape());
  require(rows.weight_N.shape() == Shape{y.rows()} && rows.weight_N.dtype() == acc_dtype(y.dtype()),
          "merge_norm: weights of routed rows must be [{}] of {}, got {} of {}", y.rows(),
          acc_dtype(y.dtype()), rows.weight_N.shape(), rows.weight_N.dtype());
}

// Inputs in the order in which they are recorded.
enum MergeInput : size_t {
  in_x,
  in_stream,
  in_hidden_scale,
  in_hidden_bias,
  in_residual_scale,
  in_residual_bias,
  in_weight,
  in_route_weight,
  in_order,
  in_offsets,
  in_place
};

kernel::Routes merge_routes(const Tensors& in) {
  return {{in[in_order], in[in_offsets], in[in_place]}, in[in_route_weight]};
}

ResidualScale merge_scale(const Tensors& in) {
  return {in[in_hidden_scale], in[in_hidden_bias], in[in_residual_scale], in[in_residual_bias]};
}

void merge_backward(const Tensors& saved, const Tensors& dy, GradSink& sink) {
  launch(saved[in_x].device(), "merge_norm",
         kernel::MergeNormGrad{.dmerged = dy[0],
                               .dnormed = dy[1],
                               .x = saved[in_x],
                               .routes = merge_routes(saved),
                               .stream = saved[in_stream],
                               .scale = merge_scale(saved),
                               .weight = saved[in_weight],
                               .rstd = saved.back(),
                               .dx = sink.target_if_wanted(in_x),
                               .droute_weight = sink.target_if_wanted(in_route_weight),
                               .dstream = sink.target_if_wanted(in_stream),
                               .dhidden_scale = sink.target_if_wanted(in_hidden_scale),
                               .dhidden_bias = sink.target_if_wanted(in_hidden_bias),
                               .dresidual_scale = sink.target_if_wanted(in_residual_scale),
                               .dresidual_bias = sink.target_if_wanted(in_residual_bias),
                               .dweight = sink.target_if_wanted(in_weight)});
}

MergedNorm run_merge(const Tensor& x, const kernel::Routes& routes, const Tensor& stream,
                     const ResidualScale& s, const Tensor& weight, double eps) {
  check(x, stream, s, weight);

  const DType acc = acc_dtype(x.dtype());
  Tensor merged(x.shape(), acc, x.device());
  Tensor normed = empty_like(x);
  Tensor rstd({x.rows()}, acc, x.device());
  launch(x.device(), "merge_norm",
         kernel::MergeNorm{x, routes, stream, s, weight, eps, merged, normed, rstd});

  if (!Tape::current()) return {merged, normed};
  const Tensors inputs{x,
                       stream,
                       s.hidden_scale,
                       s.hidden_bias,
                       s.residual_scale,
                       s.residual_bias,
                       weight,
                       routes.weight_N,
                       routes.plan.order_N,
                       routes.plan.offsets,
                       routes.plan.place_N};
  Tensors saved = inputs;
  saved.push_back(rstd);
  record(
      {.name = "merge_norm",
       .op_class = OpClass::norm,
       .inputs = inputs,
       .saved = saved,
       .always_kept = 1},
      {&merged, &normed},
      [](const Tensors& kept, const Tensors& dy, GradSink& sink) {
        merge_backward(kept, dy, sink);
      },
      [eps](const Tensors& in) -> Tensors {
        const MergedNorm out = run_merge(in[in_x], merge_routes(in), in[in_stream], merge_scale(in),
                                         in[in_weight], eps);
        return {out.stream, out.normed};
      });
  return {merged, normed};
}

}  // namespace

MergedNorm merge_norm(const Tensor& x, const Tensor& stream, const ResidualScale& s,
                      const Tensor& weight, double eps) {
  return run_merge(x, {}, stream, s, weight, eps);
}

MergedNorm merge_norm(const RoutedRows& rows, const Tensor& stream, const ResidualScale& s,
                      const Tensor& weight, double eps) {
  if (!rows.weight_N) return merge_norm(rows.y, stream, s, weight, eps);
  if (rows.skip_input || !as_on_a_gpu(rows.y)) {
    const Tensor x = combine_rows(rows.y, rows.weight_N, rows.plan, rows.skip_input);
    return merge_norm(x, stream, s, weight, eps);
  }
  check_routes(rows);
  return run_merge(rows.y, {rows.plan, rows.weight_N}, stream, s, weight, eps);
}

}  // namespace tephra
