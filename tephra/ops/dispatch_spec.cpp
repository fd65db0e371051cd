// SPDX-License-Identifier: Apache-2.0
// The specs of the two exchanges.
#include "tephra/ops/dispatch.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/expert_cases.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

constexpr int64_t kN = 16384, kH = 512, kE = 16;  // of the benches
constexpr double kBytes = double(kN) * kH * 4;

// Inputs: x, expert.
OpCase dispatch_case(const ExpertCase& test, int64_t width) {
  const int64_t experts = test.num_experts;
  return {.name = test.name,
          .inputs = {{.shape = {test.expert_N.numel(), width}}, InputSpec::index(test.expert_N)},
          .run = [experts](const Tensors& in) -> Tensors {
            return {dispatch_rows(in[0], plan_dispatch(in[1], experts))};
          },
          .naive = [experts](const Tensors& in) -> Tensors {
            const NaivePlan plan = naive_plan(in[1], experts);
            const int64_t cols = in[0].cols();
            Tensor out = zeros(in[0].shape(), DType::f64);
            for (int64_t i = 0; i < plan.routed * cols; ++i) {
              const int64_t token = plan.token[static_cast<size_t>(i / cols)];
              out.set(i, in[0].at(token * cols + i % cols));
            }
            return {out};
          }};
}

OpCase strided_dispatch() {
  OpCase c = dispatch_case({"a column view of x", 4, spread_experts(50, 5)}, 21);
  c.run = [](const Tensors& in) -> Tensors {
    return {dispatch_rows(slice_columns(in[0], 3, 20), plan_dispatch(in[1], 4))};
  };
  c.naive = [naive = c.naive](const Tensors& in) -> Tensors {
    return {clone(naive(in)[0].column_view(3, 20))};
  };
  return c;
}

// Inputs: y, weight, expert, and skip_input when it is used.
Tensors run_combine(const Tensors& in, int64_t experts) {
  return {
      combine_rows(in[0], in[1], plan_dispatch(in[2], experts), in.size() > 3 ? in[3] : Tensor())};
}

Tensors naive_combine(const Tensors& in, int64_t experts) {
  const NaivePlan plan = naive_plan(in[2], experts);
  const int64_t cols = in[0].cols();
  Tensor out = zeros(in[0].shape(), DType::f64);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int64_t at = plan.token[static_cast<size_t>(i / cols)] * cols + i % cols;
    const bool skipped = i / cols >= plan.routed;
    if (skipped && in.size() < 4) continue;
    out.set(at, in[1].at(at / cols) * (skipped ? in[3].at(at) : in[0].at(i)));
  }
  return {out};
}

std::vector<InputSpec> combine_inputs(const Tensor& expert, int64_t width, bool with_skip_input) {
  const int64_t tokens = expert.numel();
  std::vector<InputSpec> inputs{
      {.shape = {tokens, width}}, InputSpec::stream({tokens}, 0.5, 0.2), InputSpec::index(expert)};
  if (with_skip_input) inputs.push_back({.shape = {tokens, width}});
  return inputs;
}

OpCase combine_case(const ExpertCase& test, int64_t width, bool with_skip_input) {
  const int64_t experts = test.num_experts;
  return {.name = test.name + (with_skip_input ? ", skip input" : ""),
          .inputs = combine_inputs(test.expert_N, width, with_skip_input),
          .run = [experts](const Tensors& in) { return run_combine(in, experts); },
          .naive = [experts](const Tensors& in) { return naive_combine(in, experts); }};
}

OpCase strided_combine() {
  OpCase c = combine_case({"column views of y and skip_input", 4, spread_experts(50, 5)}, 21, true);
  c.run = [](const Tensors& in) -> Tensors {
    return run_combine({slice_columns(in[0], 3, 20), in[1], in[2], slice_columns(in[3], 3, 20)}, 4);
  };
  c.naive = [](const Tensors& in) -> Tensors {
    return {clone(naive_combine(in, 4)[0].column_view(3, 20))};
  };
  return c;
}

}  // namespace

OpSpec dispatch_rows_spec() {
  OpSpec spec{.name = "dispatch_rows"};
  for (const ExpertCase& test : expert_cases()) spec.cases.push_back(dispatch_case(test, 13));
  spec.cases.push_back(dispatch_case({"eights of columns", 4, spread_experts(600, 5)}, 24));
  spec.cases.push_back(strided_dispatch());
  const OpCase large = dispatch_case({"16384 x 512", kE, spread_experts(kN, kE)}, kH);
  spec.benches = {{.name = large.name,
                   .inputs = large.inputs,
                   .run = large.run,
                   .forward_read_bytes = kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = kBytes,
                   .backward_write_bytes = kBytes}};
  return spec;
}

OpSpec combine_rows_spec() {
  OpSpec spec{.name = "combine_rows"};
  for (const ExpertCase& test : expert_cases()) {
    spec.cases.push_back(combine_case(test, 13, false));
    spec.cases.push_back(combine_case(test, 13, true));
  }
  spec.cases.push_back(combine_case({"eights of columns", 4, spread_experts(600, 5)}, 24, true));
  spec.cases.push_back(strided_combine());
  const OpCase large = combine_case({"16384 x 512", kE, spread_experts(kN, kE)}, kH, false);
  spec.benches = {{.name = large.name,
                   .inputs = large.inputs,
                   .run = large.run,
                   .forward_read_bytes = kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = 2 * kBytes,
                   .backward_write_bytes = kBytes}};
  return spec;
}

}  // namespace tephra
