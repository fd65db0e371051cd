// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/grouped_linear.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check(const Tensor& x, const Shape& weight, const DispatchPlan& plan) {
  const int64_t experts = plan.offsets.numel() - 1;
  require(x.ndim() == 2 && x.rows() == plan.order_N.numel(),
          "grouped_linear: x must be [{}, width] to match the plan, got {}", plan.order_N.numel(),
          x.shape());
  require(weight.ndim() == 3 && weight[0] == experts && weight[2] == x.cols(),
          "grouped_linear: weight must be [{}, out, {}] to match the plan and x {}, got {}",
          experts, x.cols(), x.shape(), weight);
}

}  // namespace

Tensor grouped_linear(const Tensor& x, const Weight& weight, const DispatchPlan& plan) {
  if (!weight.is_packed()) return grouped_linear(x, weight.tensor(), plan);
  check(x, weight.shape(), plan);
  const bool narrow = x.dtype() == DType::bf16 && x.device().kind == Device::Kind::gpu;
  require(x.dtype() == DType::f32 || narrow,
          "grouped_linear: with quantised weights x must be f32, on a GPU also bf16, got {}",
          x.dtype());
  Tensor y({x.rows(), weight.shape()[1]}, x.dtype(), x.device());
  launch(x.device(), "grouped_linear", kernel::PackedGroupedLinear{x, weight, plan.offsets, y});
  return y;
}

Tensor grouped_linear(const Tensor& x, const Tensor& weight, const DispatchPlan& plan) {
  check(x, weight.shape(), plan);
  const bool widened =
      x.dtype() == DType::f32 && weight.dtype() == DType::bf16 && !weight.variable();
  require(weight.dtype() == x.dtype() || widened, "grouped_linear: weight is {}, x is {}",
          weight.dtype(), x.dtype());

  Tensor y({x.rows(), weight.dim(1)}, x.dtype(), x.device());
  launch(x.device(), "grouped_linear", kernel::GroupedLinear{x, weight, plan.offsets, y});

  record(
      {.name = "grouped_linear",
       .op_class = OpClass::experts,
       .inputs = {x, weight, plan.order_N, plan.offsets},
       .saved = {x, weight, plan.offsets}},
      {&y},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        GradTarget dx, dw;
        if (sink.wants(0)) dx = sink.target(0);
        if (sink.wants(1)) dw = sink.target(1);
        launch(dy[0].device(), "grouped_linear",
               kernel::GroupedLinearGrad{dy[0], saved[0], saved[1], saved[2], dx.grad,
                                         dx.accumulate, dw.grad, dw.accumulate});
      },
      [](const Tensors& in) -> Tensors {
        return {grouped_linear(in[0], in[1], {in[2], in[3]})};
      });
  return y;
}

}  // namespace tephra
