// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/linear.h"

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

// Inputs: x, then weights and biases in turn (an undefined bias is an input without values).
Tensors run(const Tensors& in) {
  Tensors weights, biases;
  for (size_t i = 1; i + 1 < in.size(); i += 2) {
    weights.push_back(in[i]);
    biases.push_back(in[i + 1].numel() > 0 ? in[i + 1] : Tensor());
  }
  return {linear(in[0], weights, biases)};
}

// Columns [begin, end) of row r of y = x w^T + b.
void naive_columns(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
                   int64_t column) {
  for (int64_t r = 0; r < x.rows(); ++r) {
    for (int64_t o = 0; o < w.rows(); ++o) {
      double sum = b.numel() > 0 ? b.at(o) : 0;
      for (int64_t c = 0; c < x.cols(); ++c) sum += x.at(r * x.cols() + c) * w.at(o * w.cols() + c);
      y.set(r * y.cols() + column + o, sum);
    }
  }
}

Tensors naive(const Tensors& in) {
  int64_t out = 0;
  for (size_t i = 1; i < in.size(); i += 2) out += in[i].rows();
  Tensor y({in[0].rows(), out}, DType::f64);
  int64_t column = 0;
  for (size_t i = 1; i + 1 < in.size(); i += 2) {
    naive_columns(in[0], in[i], in[i + 1], y, column);
    column += in[i].rows();
  }
  return {y};
}

std::vector<InputSpec> inputs_of(int64_t rows, int64_t in, const std::vector<int64_t>& outs,
                                 bool bias) {
  std::vector<InputSpec> inputs{{.shape = {rows, in}}};
  for (const int64_t out : outs) {
    inputs.push_back(InputSpec::parameter({out, in}, 0, 0.5));
    inputs.push_back(InputSpec::parameter({bias ? out : 0}));
  }
  return inputs;
}

OpCase linear_case(const std::string& name, int64_t rows, int64_t in,
                   const std::vector<int64_t>& outs, bool bias) {
  return {.name = name, .inputs = inputs_of(rows, in, outs, bias), .run = run, .naive = naive};
}

// Reads and writes through column views: x is the middle of a wider input, and only the middle of
// the result is used.
OpCase strided_case() {
  OpCase c = linear_case("column views of x and y", 20, 12, {9}, true);
  c.inputs[0].shape = {20, 20};
  c.run = [](const Tensors& in) -> Tensors {
    return {slice_columns(linear(slice_columns(in[0], 5, 17), in[1], in[2]), 2, 7)};
  };
  c.naive = [](const Tensors& in) -> Tensors {
    Tensors dense = in;
    dense[0] = clone(in[0].column_view(5, 17));
    return {clone(naive(dense)[0].column_view(2, 7))};
  };
  return c;
}

// The acc-dtype result; not differentiable, so only its values are checked.
OpCase acc_case() {
  OpCase c = linear_case("result in the acc dtype", 18, 31, {13}, true);
  for (InputSpec& in : c.inputs) in.gradient = false;
  c.run = [](const Tensors& in) -> Tensors { return {linear_acc(in[0], in[1], in[2])}; };
  return c;
}

OpBench bench(const std::string& name, int64_t rows, int64_t in, int64_t out) {
  const double flops = 2.0 * double(rows) * double(in) * double(out);
  return {.name = name,
          .inputs = inputs_of(rows, in, {out}, false),
          .run = run,
          .forward_flops = flops,
          .backward_flops = 2 * flops,
          .forward_gemms = {{.m = rows, .n = out, .k = in, .transpose_b = true}},
          .backward_gemms = {{.m = rows, .n = in, .k = out},
                             {.m = out, .n = in, .k = rows, .transpose_a = true}}};
}

}  // namespace

OpSpec linear_spec() {
  return {
      .name = "linear",
      .cases = {linear_case("one token", 1, 8, {4}, false),
                linear_case("one token with bias", 1, 33, {17}, true),
                linear_case("few tokens", 7, 40, {21}, true),
                linear_case("odd sizes", 37, 29, {19}, false),
                linear_case("several tiles", 150, 24, {530}, true),
                linear_case("three weights side by side", 33, 16, {8, 5, 3}, true),
                linear_case("two weights without bias", 33, 16, {8, 24}, false),
                linear_case("no tokens", 0, 16, {8, 4}, true),
                linear_case("one input column, one output", 5, 1, {1}, true), strided_case(),
                acc_case()},
      .benches = {bench("hidden 512: 2048 x 512 -> 512", 2048, 512, 512),
                  bench("hidden 2048: 2048 x 2048 -> 2048", 2048, 2048, 2048),
                  bench("keys of hidden 2048: 2048 x 2048 -> 256", 2048, 2048, 256),
                  bench("head of hidden 512: 2048 x 512 -> 8192", 2048, 512, 8192)},
  };
}

}  // namespace tephra
