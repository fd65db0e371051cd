// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"
#include "tephra/ops/scaled_add.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) { return {scaled_add(in[0], in[1], in[2])}; }

Tensors naive(const Tensors& in) {
  Tensor out(in[0].shape(), DType::f64);
  for (int64_t i = 0; i < out.numel(); ++i) {
    out.set(i, in[0].at(i) + in[1].at(i) * in[2].at(i % out.cols()));
  }
  return {out};
}

std::vector<InputSpec> inputs(int64_t rows, int64_t width) {
  return {{.shape = {rows, width}}, {.shape = {rows, width}}, InputSpec::parameter({width}, 0.5)};
}

OpCase scaled_add_case(const std::string& name, int64_t rows, int64_t width) {
  return {.name = name, .inputs = inputs(rows, width), .run = run, .naive = naive};
}

OpCase strided_case() {
  OpCase c = scaled_add_case("columns of wider tensors", 6, 30);
  c.inputs[2].shape = {21};
  c.run = [](const Tensors& in) {
    return run({slice_columns(in[0], 2, 23), slice_columns(in[1], 9, 30), in[2]});
  };
  c.naive = [](const Tensors& in) {
    return naive({in[0].column_view(2, 23), in[1].column_view(9, 30), in[2]});
  };
  return c;
}

// x and y may be one tensor: both gradients arrive in the same place.
OpCase same_tensor_case() {
  return {.name = "x is y",
          .inputs = {{.shape = {7, 18}}, InputSpec::parameter({18}, 0.5)},
          .run =
              [](const Tensors& in) {
                return run({in[0], in[0], in[1]});
              },
          .naive =
              [](const Tensors& in) {
                return naive({in[0], in[0], in[1]});
              }};
}

// Without the gradient of x: it is dout itself, handed on, but a leaf would have to copy it.
std::vector<InputSpec> bench_inputs(int64_t rows, int64_t width) {
  std::vector<InputSpec> in = inputs(rows, width);
  in[0].gradient = false;
  return in;
}

}  // namespace

OpSpec scaled_add_spec() {
  constexpr int64_t kN = 131072, kC = 256;
  constexpr double kBytes = double(kN) * kC * 4;
  return {
      .name = "scaled_add",
      .cases = {scaled_add_case("one row", 1, 8),
                scaled_add_case("several blocks of rows", 2100, 40),
                scaled_add_case("a width that no vector divides", 4, 257),
                scaled_add_case("one column", 5, 1), scaled_add_case("no rows", 0, 16),
                strided_case(), same_tensor_case()},
      .benches = {{.name = "131072 x 256",
                   .inputs = bench_inputs(kN, kC),
                   .run = run,
                   .forward_read_bytes = 2 * kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = 2 * kBytes,
                   .backward_write_bytes = kBytes}},
  };
}

}  // namespace tephra
