// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/newton_schulz.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tephra/base/parallel.h"
#include "tephra/core/rng.h"
#include "tests/support/difference.h"

namespace tephra {
namespace {

using Doubles = std::vector<double>;

double rounded(double x, bool narrow) { return narrow ? double(float(bf16(x))) : x; }

// a b, of m x inner and inner x n; whole rows at a time, which compilers make vectors of.
Doubles product(const Doubles& a, const Doubles& b, int64_t m, int64_t inner, int64_t n) {
  Doubles sums(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    double* row = sums.data() + i * n;
    for (int64_t k = 0; k < inner; ++k) {
      const double factor = a[static_cast<size_t>(i * inner + k)];
      const double* from = b.data() + k * n;
      for (int64_t j = 0; j < n; ++j) row[j] += factor * from[j];
    }
  }
  return sums;
}

Doubles transpose(const Doubles& x, int64_t rows, int64_t cols) {
  Doubles y(x.size());
  for (int64_t i = 0; i < rows * cols; ++i) {
    y[static_cast<size_t>(i % cols * rows + i / cols)] = x[static_cast<size_t>(i)];
  }
  return y;
}

// The definition in double, one product after the other, transposed so that rows <= cols.
Doubles naive(Doubles x, int64_t rows, int64_t cols, const NewtonSchulzOptions& o) {
  if (rows > cols) return transpose(naive(transpose(x, rows, cols), cols, rows, o), cols, rows);
  for (int step = 0; step < o.steps; ++step) {
    Doubles gram = product(x, transpose(x, rows, cols), rows, cols, rows);
    for (double& each : gram) each = rounded(each, o.bf16);
    Doubles b = product(gram, gram, rows, rows, rows);
    for (size_t i = 0; i < b.size(); ++i) b[i] = rounded(o.b * gram[i] + o.c * b[i], o.bf16);
    const Doubles bx = product(b, x, rows, rows, cols);
    for (size_t i = 0; i < x.size(); ++i) x[i] = rounded(o.a * x[i] + bx[i], o.bf16);
  }
  return x;
}

// Random matrices, each of norm 1 (in bf16 values where asked).
Tensor inputs(const Shape& shape, DType dtype, bool narrow = false) {
  const Tensor x(shape, dtype);
  fill_normal(x, {7, stream_of("newton_schulz"), 0}, 0, 1);
  const int64_t size = x.dim(1) * x.dim(2);
  for (int64_t e = 0; e < x.dim(0); ++e) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i) sum += x.at(e * size + i) * x.at(e * size + i);
    for (int64_t i = 0; i < size; ++i) {
      x.set(e * size + i, rounded(x.at(e * size + i) / (std::sqrt(sum) + 1e-7), narrow));
    }
  }
  return x;
}

// Largest difference to the naive result, over all matrices.
double distance(const Shape& shape, DType dtype, const NewtonSchulzOptions& o) {
  const Tensor x = inputs(shape, dtype, o.bf16);
  const int64_t size = shape[1] * shape[2];
  std::vector<Doubles> want;
  for (int64_t e = 0; e < shape[0]; ++e) {
    Doubles one;
    for (int64_t i = 0; i < size; ++i) one.push_back(x.at(e * size + i));
    want.push_back(naive(one, shape[1], shape[2], o));
  }
  const Tensor got = newton_schulz(x, o);
  double worst = 0;
  for (int64_t i = 0; i < got.numel(); ++i) {
    const double w = want[static_cast<size_t>(i / size)][static_cast<size_t>(i % size)];
    worst = std::max(worst, difference(got.at(i), w));
  }
  return worst;
}

const Shape kShapes[] = {{1, 1, 1},  {1, 1, 9},    {2, 9, 1},     {3, 7, 7},     {2, 5, 33},
                         {2, 33, 5}, {1, 130, 40}, {1, 150, 170}, {1, 170, 150}, {1, 200, 300}};

TEST(NewtonSchulz, IsTheNaiveIterationInDouble) {
  for (const Shape& shape : kShapes) {
    EXPECT_LT(distance(shape, DType::f64, {}), 1e-12) << to_text(shape);
  }
}

// Five steps stretch a rounding error by at most 3.4445^5 = 485; values stay below 1.3.
TEST(NewtonSchulz, StaysWithinRoundingInFloat) {
  for (const Shape& shape : kShapes) {
    EXPECT_LT(distance(shape, DType::f32, {}), 485 * 6e-8) << to_text(shape);
  }
}

// One rounding that falls to the other side moves a value by 2^-8 of itself, and the next steps
// carry that on: the twin agrees to a few such roundings, not to float rounding.
TEST(NewtonSchulz, RoundsBetweenProductsInBf16) {
  const NewtonSchulzOptions narrow{.bf16 = true};
  for (const Shape& shape : kShapes) {
    EXPECT_LT(distance(shape, DType::f32, narrow), 0.03) << to_text(shape);
  }
  const Tensor y = newton_schulz(inputs({2, 40, 60}, DType::f32, true), narrow);
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.at(i), rounded(y.at(i), true)) << i;
  NewtonSchulzOptions once = narrow;
  once.steps = 1;
  EXPECT_LT(distance({1, 40, 60}, DType::f32, once), 0.004);
}

TEST(NewtonSchulz, TakesOtherCoefficientsAndSteps) {
  const NewtonSchulzOptions cubic{.a = 1.5, .b = -0.5, .c = 0, .steps = 12};
  EXPECT_LT(distance({1, 24, 40}, DType::f64, cubic), 1e-12);
}

// Twelve plain steps converge: X X^T becomes the identity.
TEST(NewtonSchulz, MakesRowsOrthonormal) {
  const int64_t m = 24, n = 40;
  const Tensor y = newton_schulz(inputs({1, m, n}, DType::f64), {1.5, -0.5, 0, 40, false});
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < m; ++j) {
      double dot = 0;
      for (int64_t k = 0; k < n; ++k) dot += y.at(i * n + k) * y.at(j * n + k);
      EXPECT_NEAR(dot, i == j ? 1 : 0, 1e-9) << i << ", " << j;
    }
  }
}

TEST(NewtonSchulz, GivesTheSameBitsOnAnyNumberOfThreadsAndInAnyBatch) {
  const int before = num_threads();
  for (const Shape& shape : {Shape{3, 150, 170}, Shape{2, 300, 200}, Shape{5, 8, 8}}) {
    set_num_threads(1);
    const Tensor want = newton_schulz(inputs(shape, DType::f32), {});
    for (const int threads : {2, 3, 8, 16}) {
      set_num_threads(threads);
      EXPECT_TRUE(same_bits(newton_schulz(inputs(shape, DType::f32), {}), want)) << threads;
    }
    const Tensor alone =
        clone(inputs(shape, DType::f32).slice_rows(0, shape[1])).view({1, shape[1], shape[2]});
    EXPECT_TRUE(same_bits(newton_schulz(alone, {}).view({shape[1], shape[2]}),
                          clone(want.slice_rows(0, shape[1])).view({shape[1], shape[2]})));
  }
  set_num_threads(before);
}

TEST(NewtonSchulz, LeavesNothingOfNothing) {
  EXPECT_EQ(newton_schulz(zeros({0, 4, 4}, DType::f32), {}).numel(), 0);
  EXPECT_EQ(newton_schulz(zeros({3, 0, 4}, DType::f32), {}).numel(), 0);
  const Tensor y = newton_schulz(zeros({2, 3, 5}, DType::f32), {});
  for (int64_t i = 0; i < y.numel(); ++i) EXPECT_EQ(y.at(i), 0);
}

TEST(NewtonSchulz, CountsItsWork) {
  const NewtonSchulzFlops f = newton_schulz_flops(4, 10, 1);
  EXPECT_EQ(f.full, 2 * (4 * 4 * 10 + 4 * 4 * 4 + 4 * 4 * 10));
  EXPECT_EQ(f.needed, 2 * (10 * 10 + 10 * 4 + 4 * 4 * 10));
  EXPECT_EQ(newton_schulz_flops(10, 4, 3).needed, 3 * f.needed);
}

}  // namespace
}  // namespace tephra
