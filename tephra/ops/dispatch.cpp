// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/dispatch.h"

#include "tephra/autograd/tape.h"
#include "tephra/device/launch.h"

namespace tephra {
namespace {

void check_rows(const char* op, const Tensor& x, const DispatchPlan& plan) {
  require(x.ndim() == 2 && x.rows() == plan.order_N.numel(),
          "{}: expected [{}, width] to match the plan, got {}", op, plan.order_N.numel(),
          x.shape());
}

}  // namespace

DispatchPlan plan_dispatch(const Tensor& expert_N, int64_t num_experts) {
  require(expert_N.ndim() == 1 && expert_N.dtype() == DType::i32,
          "plan_dispatch: experts must be [tokens] of i32, got {} of {}", expert_N.shape(),
          expert_N.dtype());
  require(num_experts >= 1, "plan_dispatch: expected at least one expert, got {}", num_experts);
  DispatchPlan plan{Tensor(expert_N.shape(), DType::i32, expert_N.device()),
                    Tensor({num_experts + 1}, DType::i32, expert_N.device()),
                    Tensor(expert_N.shape(), DType::i32, expert_N.device())};
  launch(expert_N.device(), "plan_dispatch",
         kernel::PlanDispatch{expert_N, plan.order_N, plan.offsets, plan.place_N});
  return plan;
}

Tensor dispatch_rows(const Tensor& x, const DispatchPlan& plan) {
  check_rows("dispatch_rows", x, plan);
  Tensor out = empty_like(x);
  launch(x.device(), "dispatch_rows", kernel::GatherRows{x, plan.order_N, plan.offsets, out});

  if (!Tape::current()) return out;
  record(
      {.name = "dispatch_rows",
       .op_class = OpClass::dispatch,
       .inputs = {x, plan.order_N, plan.offsets},
       .saved = {plan.order_N, plan.offsets}},
      {&out},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        const GradTarget dx = sink.target(0);
        launch(dy[0].device(), "dispatch_rows",
               kernel::ScatterRows{dy[0], saved[0], saved[1], dx.grad, dx.accumulate});
      },
      [](const Tensors& in) -> Tensors {
        return {dispatch_rows(in[0], {in[1], in[2]})};
      });
  return out;
}

Tensor combine_rows(const Tensor& y, const Tensor& weight_N, const DispatchPlan& plan,
                    const Tensor& skip_input) {
  check_rows("combine_rows", y, plan);
  require(weight_N.shape() == Shape{y.rows()} && weight_N.dtype() == acc_dtype(y.dtype()),
          "combine_rows: weight must be [{}] of {}, got {} of {}", y.rows(), acc_dtype(y.dtype()),
          weight_N.shape(), weight_N.dtype());
  if (skip_input) {
    require(skip_input.shape() == y.shape() && skip_input.dtype() == y.dtype(),
            "combine_rows: skip_input must be like y ({} of {}), got {} of {}", y.shape(),
            y.dtype(), skip_input.shape(), skip_input.dtype());
  }
  Tensor out = empty_like(y);
  launch(y.device(), "combine_rows",
         kernel::CombineRows{y, weight_N, plan.order_N, plan.offsets, skip_input, out});

  const Tensors inputs{y, weight_N, plan.order_N, plan.offsets, skip_input};
  if (!Tape::current()) return out;
  record(
      {.name = "combine_rows", .op_class = OpClass::dispatch, .inputs = inputs, .saved = inputs},
      {&out},
      [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
        const auto wanted = [&](size_t i) { return sink.wants(i) ? sink.target(i) : GradTarget{}; };
        const GradTarget d = wanted(0), dw = wanted(1), ds = wanted(4);
        launch(
            dy[0].device(), "combine_rows",
            kernel::CombineRowsGrad{dy[0], saved[0], saved[1], saved[2], saved[3], saved[4], d.grad,
                                    d.accumulate, dw.grad, dw.accumulate, ds.grad, ds.accumulate});
      },
      [](const Tensors& in) -> Tensors {
        return {combine_rows(in[0], in[1], {in[2], in[3]}, in[4])};
      });
  return out;
}

}  // namespace tephra
