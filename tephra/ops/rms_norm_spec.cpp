// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tephra/ops/op_spec.h"
#include "tephra/ops/rms_norm.h"

namespace tephra {
namespace {

constexpr double kEps = 1e-5;

Tensors run(const Tensors& in) { return {rms_norm(in[0], in[1], kEps)}; }

Tensors naive(const Tensors& in) {
  const Tensor &x = in[0], &w = in[1];
  Tensor y = empty_like(x);
  const int64_t width = x.cols();
  for (int64_t r = 0; r < x.rows(); ++r) {
    double mean_square = 0;
    for (int64_t c = 0; c < width; ++c) {
      mean_square += x.at(r * width + c) * x.at(r * width + c) / static_cast<double>(width);
    }
    for (int64_t c = 0; c < width; ++c) {
      y.set(r * width + c, x.at(r * width + c) / std::sqrt(mean_square + kEps) * w.at(c));
    }
  }
  return {y};
}

OpCase rms_norm_case(const std::string& name, int64_t rows, int64_t width, double scale = 1) {
  return {
      .name = name,
      .inputs = {{.shape = {rows, width}, .scale = scale}, InputSpec::parameter({width}, 1, 0.2)},
      .run = run,
      .naive = naive};
}

}  // namespace

OpSpec rms_norm_spec() {
  constexpr int64_t kN = 16384, kC = 2048;
  constexpr double kBytes = double(kN) * kC * 4;
  return {
      .name = "rms_norm",
      .cases = {rms_norm_case("one row", 1, 8), rms_norm_case("several blocks of rows", 67, 64),
                rms_norm_case("a width that no vector divides", 4, 1023),
                rms_norm_case("three columns", 5, 3), rms_norm_case("no rows", 0, 16),
                rms_norm_case("eps outweighs the mean square", 2, 7, 1e-4)},
      .benches = {{.name = "16384 x 2048",
                   .inputs = {{.shape = {kN, kC}}, InputSpec::parameter({kC}, 1, 0.2)},
                   .run = run,
                   .forward_read_bytes = kBytes,
                   .forward_write_bytes = kBytes,
                   .backward_read_bytes = 2 * kBytes,
                   .backward_write_bytes = kBytes}},
  };
}

}  // namespace tephra
