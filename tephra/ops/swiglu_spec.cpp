// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/autograd/variable.h"
#include "tephra/ops/op_spec.h"
#include "tephra/ops/swiglu.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) { return {swiglu(in[0])}; }

Tensors naive(const Tensors& in) {
  const Tensor& x = in[0];
  const int64_t width = x.cols() / 2;
  Tensor y({x.rows(), width}, DType::f64);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const int64_t r = i / width, c = i % width;
    const double gate = x.at(r * 2 * width + c), up = x.at(r * 2 * width + width + c);
    y.set(i, gate / (1 + std::exp(-gate)) * up);
  }
  return {y};
}

OpCase swiglu_case(const std::string& name, int64_t rows, int64_t width, double scale = 1) {
  return {.name = name,
          .inputs = {{.shape = {rows, 2 * width}, .scale = scale}},
          .run = run,
          .naive = naive};
}

OpCase strided_case() {
  OpCase c = swiglu_case("columns of a wider tensor", 9, 13);
  c.inputs[0].shape = {9, 40};
  c.run = [](const Tensors& in) { return run({slice_columns(in[0], 5, 31)}); };
  c.naive = [](const Tensors& in) { return naive({in[0].column_view(5, 31)}); };
  return c;
}

}  // namespace

OpSpec swiglu_spec() {
  constexpr int64_t kN = 16384, kF = 2048;
  constexpr double kBytes = double(kN) * kF * 4;
  return {
      .name = "swiglu",
      .cases = {swiglu_case("one row", 1, 8), swiglu_case("several pieces of rows", 700, 60),
                swiglu_case("a width that no vector divides", 3, 1023),
                swiglu_case("one column", 5, 1), swiglu_case("no rows", 0, 16),
                swiglu_case("gates far beyond the range of exp", 3, 50, 300), strided_case()},
      .benches = {{.name = "16384 x 2048",
                   .inputs = {{.shape = {kN, 2 * kF}}},
                   .run = run,
                   .forward_read_bytes = 2 * kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = 3 * kBytes,
                   .backward_write_bytes = 2 * kBytes}},
  };
}

}  // namespace tephra
