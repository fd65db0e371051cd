// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/grouped_linear.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/expert_cases.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

// Inputs: x in plan order, weight, expert.
Tensors run(const Tensors& in) {
  return {grouped_linear(in[0], in[1], plan_dispatch(in[2], in[1].dim(0)))};
}

Tensors naive(const Tensors& in) {
  const Tensor &x = in[0], &w = in[1], &expert = in[2];
  const NaivePlan plan = naive_plan(expert, w.dim(0));
  const int64_t width = x.cols(), outs = w.dim(1);
  Tensor y = zeros({x.rows(), outs}, DType::f64);
  for (int64_t i = 0; i < plan.routed; ++i) {
    const auto e = static_cast<int64_t>(expert.at(plan.token[static_cast<size_t>(i)]));
    for (int64_t o = 0; o < outs; ++o) {
      double sum = 0;
      for (int64_t c = 0; c < width; ++c) {
        sum += x.at(i * width + c) * w.at((e * outs + o) * width + c);
      }
      y.set(i * outs + o, sum);
    }
  }
  return {y};
}

std::vector<InputSpec> inputs_of(const ExpertCase& test, int64_t in, int64_t out) {
  return {{.shape = {test.expert_N.numel(), in}},
          InputSpec::parameter({test.num_experts, out, in}, 0, 0.5),
          InputSpec::index(test.expert_N)};
}

OpCase grouped_case(const ExpertCase& test, int64_t in, int64_t out) {
  return {.name = test.name, .inputs = inputs_of(test, in, out), .run = run, .naive = naive};
}

OpCase strided_case() {
  OpCase c = grouped_case({"column views of x and y", 4, spread_experts(60, 5)}, 11, 9);
  c.inputs[0].shape = {60, 20};
  c.run = [](const Tensors& in) -> Tensors {
    return {slice_columns(run({slice_columns(in[0], 6, 17), in[1], in[2]})[0], 1, 7)};
  };
  c.naive = [](const Tensors& in) -> Tensors {
    return {clone(naive({clone(in[0].column_view(6, 17)), in[1], in[2]})[0].column_view(1, 7))};
  };
  return c;
}

OpBench bench(int64_t tokens, int64_t experts, int64_t in, int64_t out) {
  const ExpertCase test{format("{} tokens, {} experts of {} -> {}", tokens, experts, in, out),
                        experts, spread_experts(tokens, experts)};
  const double flops = 2.0 * double(tokens) * double(in) * double(out);
  const int64_t rows = tokens / experts;  // of each expert, were they spread evenly
  return {
      .name = test.name,
      .inputs = inputs_of(test, in, out),
      .run = run,
      .forward_flops = flops,
      .backward_flops = 2 * flops,
      .forward_gemms = {{.m = rows, .n = out, .k = in, .transpose_b = true, .count = experts}},
      .backward_gemms = {{.m = rows, .n = in, .k = out, .count = experts},
                         {.m = out, .n = in, .k = rows, .transpose_a = true, .count = experts}}};
}

}  // namespace

OpSpec grouped_linear_spec() {
  OpSpec spec{.name = "grouped_linear"};
  for (const ExpertCase& test : expert_cases()) spec.cases.push_back(grouped_case(test, 12, 7));
  spec.cases.push_back(
      grouped_case({"several tiles per expert", 2, spread_experts(300, 3)}, 9, 530));
  spec.cases.push_back(strided_case());
  spec.benches = {bench(4096, 16, 512, 1024), bench(1024, 4, 2048, 4096)};
  return spec;
}

}  // namespace tephra
