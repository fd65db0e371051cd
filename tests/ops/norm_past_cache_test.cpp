// SPDX-License-Identifier: Apache-2.0
// Gradients too large for a cache are stored past it: they must be what they are when small.
#include <gtest/gtest.h>

#include <cmath>

#include "tephra/core/rng.h"
#include "tephra/ops/merge_norm.h"
#include "tephra/ops/rms_norm.h"

namespace tephra::norm_past_cache_test {
namespace {

// 2,049 columns: rows start at every alignment, and each ends within a vector.
constexpr int64_t kRows = 4200, kWidth = 2049, kSmall = 37;

Tensor random_rows(int64_t rows, int64_t width, uint32_t stream) {
  const Tensor x = full({rows, width}, DType::f32, 0.5);
  fill_uniform(x.slice_rows(0, 2 * kSmall), {5, stream, 0}, -1, 1);  // those that are compared
  return x;
}

Tensor random_row(int64_t width, uint32_t stream) {
  const Tensor x({width}, DType::f32);
  fill_uniform(x, {5, stream, 0}, 0.5, 1);
  return x;
}

Tensor poisoned(int64_t rows, int64_t width) {
  const Tensor x({rows, width}, DType::f32);
  fill(x, 1e30);
  return x;
}

void expect_same_start(const Tensor& large, const Tensor& small) {
  EXPECT_TRUE(same_bits(large.slice_rows(0, small.rows()), small));
  const double last = large.at(large.numel() - 1);
  EXPECT_LT(std::abs(last), 1e6) << "every element is written";
}

TEST(NormPastCache, RmsNormGradient) {
  for (const int64_t width : {kWidth, int64_t{2048}}) {
    const Tensor x = random_rows(kRows, width, 1), dy = random_rows(kRows, width, 2);
    const Tensor w = random_row(width, 3), rstd = random_row(kRows, 4);
    const auto dx_of = [&](int64_t rows) {
      const Tensor dx = poisoned(rows, width);
      const Tensor dy_n = dy.slice_rows(0, rows), x_n = x.slice_rows(0, rows);
      kernel::RmsNormGrad{dy_n, x_n, w, rstd, dx, false, {}, false}.on_cpu();
      return dx;
    };
    expect_same_start(dx_of(kRows), dx_of(kSmall));
  }
}

TEST(NormPastCache, MergeNormGradient) {
  for (const int64_t width : {kWidth, int64_t{2048}}) {
    const Tensor x = random_rows(kRows, width, 1), stream = random_rows(kRows, width, 2);
    const Tensor dm = random_rows(kRows, width, 3), dn = random_rows(kRows, width, 4);
    const Tensor w = random_row(width, 5), rstd = random_row(kRows, 6), v = random_row(width, 7);
    const auto gradients_of = [&](int64_t rows) {
      const std::pair<Tensor, Tensor> out{poisoned(rows, width), poisoned(rows, width)};
      const Tensor x_n = x.slice_rows(0, rows), s_n = stream.slice_rows(0, rows);
      const Tensor dm_n = dm.slice_rows(0, rows), dn_n = dn.slice_rows(0, rows);
      const ResidualScale scale{v, v, v, v};
      kernel::MergeNormGrad{.dmerged = dm_n,
                            .dnormed = dn_n,
                            .x = x_n,
                            .stream = s_n,
                            .scale = scale,
                            .weight = w,
                            .rstd = rstd,
                            .dx = {out.first, false},
                            .dstream = {out.second, false}}
          .on_cpu();
      return out;
    };
    const auto large = gradients_of(kRows), small = gradients_of(kSmall);
    expect_same_start(large.first, small.first);
    expect_same_start(large.second, small.second);
  }
}

}  // namespace
}  // namespace tephra::norm_past_cache_test
