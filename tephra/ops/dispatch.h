// SPDX-License-Identifier: Apache-2.0
// Sends each token to its expert and back: plan, exchange, grouped product, exchange. The plan has
// fixed shapes and stays on the device; expert parallelism replaces only the two exchanges.
// Shapes: N tokens, E experts, H width.
#pragma once

#include "tephra/core/tensor.h"

namespace tephra {

struct DispatchPlan {
  Tensor order_N;  // i32: token rows sorted by expert, in token order within one; skipped ones last
  Tensor offsets;  // i32 [E + 1]: first place in `order_N` of each expert, then of the skipped
  Tensor place_N = {};  // i32: where each token is in `order_N`
};

// What experts have made of their tokens, before combine_rows has brought it back: its arguments.
// Only `y` is defined where nobody routed; it is then in token order.
struct RoutedRows {
  Tensor y;
  Tensor weight_N = {};
  DispatchPlan plan = {};
  Tensor skip_input = {};
};

// expert_N i32: the expert of each token; num_experts or more means that it skips them all.
DispatchPlan plan_dispatch(const Tensor& expert_N, int64_t num_experts);

// Row i of the result is row order[i] of x; zero where the token is skipped.
Tensor dispatch_rows(const Tensor& x, const DispatchPlan& plan);

// The way back: row order[i] of the result is weight[order[i]] * y[i]. A skipped token gets its
// weight times its row of `skip_input`, or zero when that is undefined.
// y [N, H] in plan order, weight_N in the acc dtype, skip_input [N, H] in token order.
Tensor combine_rows(const Tensor& y, const Tensor& weight_N, const DispatchPlan& plan,
                    const Tensor& skip_input = {});

namespace kernel {

struct PlanDispatch {
  const Tensor& expert;
  Tensor& order;
  Tensor& offsets;
  Tensor& place;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// to[i] = from[order[i]], zero for skipped tokens.
struct GatherRows {
  const Tensor& from;
  const Tensor& order;
  const Tensor& offsets;
  Tensor& to;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

// to[order[i]] = from[i], zero for skipped tokens.
struct ScatterRows {
  const Tensor& from;
  const Tensor& order;
  const Tensor& offsets;
  Tensor to;
  bool accumulate;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct CombineRows {
  const Tensor& y;
  const Tensor& weight;
  const Tensor& order;
  const Tensor& offsets;
  const Tensor& skip_input;
  Tensor& out;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

struct CombineRowsGrad {
  const Tensor& dout;
  const Tensor& y;
  const Tensor& weight;
  const Tensor& order;
  const Tensor& offsets;
  const Tensor& skip_input;
  Tensor dy;  // undefined when not wanted, as the next two
  bool accumulate_dy;
  Tensor dweight;
  bool accumulate_dweight;
  Tensor dskip;
  bool accumulate_dskip;

  void on_cpu() const;
  void on_gpu(gpu::Stream& stream) const;
};

}  // namespace kernel
}  // namespace tephra
