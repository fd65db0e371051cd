// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/autograd/variable.h"
#include "tephra/ops/gelu.h"
#include "tephra/ops/op_spec.h"

namespace tephra {
namespace {

Tensors run(const Tensors& in) { return {gelu(in[0])}; }

Tensors naive(const Tensors& in) {
  Tensor y(in[0].shape(), DType::f64);
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double x = in[0].at(i);
    y.set(i, 0.5 * x * std::erfc(-x / std::sqrt(2.0)));
  }
  return {y};
}

OpCase gelu_case(const std::string& name, int64_t rows, int64_t width, double scale = 1) {
  return {.name = name,
          .inputs = {{.shape = {rows, width}, .scale = scale}},
          .run = run,
          .naive = naive};
}

OpCase strided_case() {
  OpCase c = gelu_case("columns of a wider tensor", 6, 40);
  c.run = [](const Tensors& in) { return run({slice_columns(in[0], 3, 36)}); };
  c.naive = [](const Tensors& in) { return naive({in[0].column_view(3, 36)}); };
  return c;
}

}  // namespace

OpSpec gelu_spec() {
  constexpr int64_t kN = 131072, kC = 256;
  constexpr double kBytes = double(kN) * kC * 4;
  return {
      .name = "gelu",
      .cases = {gelu_case("one row", 1, 8), gelu_case("several pieces of rows", 1500, 50),
                gelu_case("a width that no vector divides", 3, 257), gelu_case("one column", 5, 1),
                gelu_case("no rows", 0, 16), gelu_case("both tails", 4, 64, 5),
                gelu_case("far tails", 4, 64, 1000), strided_case()},
      .benches = {{.name = "131072 x 256",
                   .inputs = {{.shape = {kN, kC}}},
                   .run = run,
                   .forward_read_bytes = kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = 2 * kBytes,
                   .backward_write_bytes = kBytes}},
  };
}

}  // namespace tephra
