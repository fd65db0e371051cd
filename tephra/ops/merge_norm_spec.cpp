// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/ops/as_on_a_gpu.h"
#include "tephra/ops/expert_cases.h"
#include "tephra/ops/merge_norm.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

constexpr double kEps = 1e-5;

// In the inputs' order: x, hidden scale and bias, norm weight, then stream, residual scale and
// bias.
MergedNorm call(const Tensors& in) {
  if (in.size() == 4) return merge_norm(in[0], {}, {in[1], in[2], {}, {}}, in[3], kEps);
  return merge_norm(in[0], in[4], {in[1], in[2], in[5], in[6]}, in[3], kEps);
}

Tensors run(const Tensors& in) {
  const MergedNorm out = call(in);
  return {out.stream, out.normed};
}

Tensors naive(const Tensors& in) {
  const Tensor& x = in[0];
  Tensor stream(x.shape(), DType::f64), normed(x.shape(), DType::f64);
  const int64_t width = x.cols();
  for (int64_t r = 0; r < x.rows(); ++r) {
    double mean_square = 0;
    for (int64_t c = 0; c < width; ++c) {
      const int64_t i = r * width + c;
      double v = (x.at(i) + in[2].at(c)) * in[1].at(c);
      if (in.size() > 4) v += (in[4].at(i) + in[6].at(c)) * in[5].at(c);
      stream.set(i, v);
      mean_square += v * v / static_cast<double>(width);
    }
    for (int64_t c = 0; c < width; ++c) {
      const int64_t i = r * width + c;
      normed.set(i, stream.at(i) / std::sqrt(mean_square + kEps) * in[3].at(c));
    }
  }
  return {stream, normed};
}

// Inputs as above, x in the order of its experts; then the rows' weights and the experts. The form
// that a GPU takes, wherever it runs.
Tensors run_routed(const Tensors& in, int64_t experts) {
  const AsOnAGpu everywhere(true);
  const MergedNorm out = merge_norm(RoutedRows{in[0], in[7], plan_dispatch(in[8], experts)}, in[4],
                                    {in[1], in[2], in[5], in[6]}, in[3], kEps);
  return {out.stream, out.normed};
}

Tensors naive_routed(Tensors in, int64_t experts) {
  const NaivePlan plan = naive_plan(in[8], experts);
  Tensor x = zeros(in[0].shape(), DType::f64);
  for (int64_t i = 0; i < plan.routed * x.cols(); ++i) {
    const int64_t token = plan.token[static_cast<size_t>(i / x.cols())];
    x.set(token * x.cols() + i % x.cols(), in[7].at(token) * in[0].at(i));
  }
  in[0] = x;
  in.resize(7);
  return naive(in);
}

std::vector<InputSpec> entry_inputs(int64_t rows, int64_t width) {
  return {{.shape = {rows, width}},
          InputSpec::parameter({width}, 1, 0.5),
          InputSpec::parameter({width}, 0, 0.5),
          InputSpec::parameter({width}, 1, 0.2)};
}

std::vector<InputSpec> inputs(int64_t rows, int64_t width) {
  std::vector<InputSpec> in = entry_inputs(rows, width);
  in.push_back(InputSpec::stream({rows, width}, 0, 3));
  in.push_back(InputSpec::parameter({width}, 1, 0.5));
  in.push_back(InputSpec::parameter({width}, 0, 0.5));
  return in;
}

OpCase merge_case(const std::string& name, int64_t rows, int64_t width) {
  return {.name = name, .inputs = inputs(rows, width), .run = run, .naive = naive};
}

OpCase routed_case(const ExpertCase& test, int64_t width) {
  const int64_t rows = test.expert_N.numel(), experts = test.num_experts;
  OpCase c{.name = "routed, " + test.name,
           .inputs = inputs(rows, width),
           .run = [experts](const Tensors& in) { return run_routed(in, experts); },
           .naive = [experts](const Tensors& in) { return naive_routed(in, experts); }};
  c.inputs.push_back(InputSpec::stream({rows}, 0.5, 0.2));
  c.inputs.push_back(InputSpec::index(test.expert_N));
  return c;
}

// Only one of the two outputs is used, so only one gradient comes back.
OpCase one_output_case(const std::string& name, size_t output) {
  OpCase c = merge_case(name, 6, 37);
  c.run = [output](const Tensors& in) -> Tensors { return {run(in)[output]}; };
  c.naive = [output](const Tensors& in) -> Tensors { return {naive(in)[output]}; };
  return c;
}

OpCase entry_case() {
  return {
      .name = "the entry of the stream", .inputs = entry_inputs(5, 19), .run = run, .naive = naive};
}

// x and stream are columns [2, 2 + width) of wider tensors.
OpCase strided_case() {
  constexpr int64_t kWidth = 21;
  OpCase c = merge_case("columns of wider tensors", 7, kWidth);
  for (const size_t i : {0u, 4u}) c.inputs[i].shape = {7, kWidth + 5};
  const auto sliced = [](Tensors in) {
    for (const size_t i : {0u, 4u}) in[i] = slice_columns(in[i], 2, 2 + kWidth);
    return in;
  };
  c.run = [sliced](const Tensors& in) { return run(sliced(in)); };
  c.naive = [sliced](const Tensors& in) { return naive(sliced(in)); };
  return c;
}

}  // namespace

OpSpec merge_norm_spec() {
  constexpr int64_t kN = 16384, kC = 2048;
  constexpr double kBytes = double(kN) * kC * 4;
  const OpCase routed = routed_case({"16 experts", 16, spread_experts(kN, 17)}, kC);
  return {
      .name = "merge_norm",
      .cases = {merge_case("one row", 1, 8), merge_case("several blocks of rows", 2051, 48),
                merge_case("a width that no vector divides", 4, 1023),
                merge_case("more columns than one block holds", 3, 4104),
                merge_case("two units of columns", 5, 2048),
                merge_case("four units of columns", 3, 4096), merge_case("three columns", 5, 3),
                merge_case("no rows", 0, 16), entry_case(),
                one_output_case("only the stream is used", 0),
                one_output_case("only the norm is used", 1), strided_case(),
                routed_case({"some tokens skipped", 4, spread_experts(77, 5)}, 13),
                routed_case({"eights of columns", 4, spread_experts(77, 5)}, 24),
                routed_case({"two units of columns", 3, experts_of({2, 0, 3, 0, 2, 1, 3})}, 2048),
                routed_case({"all tokens skipped", 2, experts_of({2, 2, 5})}, 16),
                routed_case({"no tokens", 3, experts_of({})}, 16)},
      .benches = {{.name = "16384 x 2048",
                   .inputs = inputs(kN, kC),
                   .run = run,
                   .forward_read_bytes = 2 * kBytes,
                   .forward_write_bytes = 2 * kBytes,
                   .backward_read_bytes = 4 * kBytes,
                   .backward_write_bytes = 2 * kBytes},
                  {.name = "16384 x 2048, routed",
                   .inputs = routed.inputs,
                   .run = routed.run,
                   .forward_read_bytes = 2 * kBytes,
                   .forward_write_bytes = 2 * kBytes,
                   .backward_read_bytes = 4 * kBytes,
                   .backward_write_bytes = 2 * kBytes}},
  };
}

}  // namespace tephra
