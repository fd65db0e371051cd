// SPDX-License-Identifier: Apache-2.0
// Packed weights against a naive loop over what they stand for, and the promises of packed.h about
// bits.
#include "tephra/device/cpu/packed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tephra/base/parallel.h"

namespace tephra::cpu {
namespace {

std::vector<float> numbers(int64_t count, uint32_t seed) {
  std::vector<float> values;
  uint32_t state = seed * 2654435761u + 1;
  for (int64_t i = 0; i < count; ++i) {
    float sum = 0;  // of four: roughly normal
    for (int j = 0; j < 4; ++j) {
      state = state * 1664525u + 1013904223u;
      sum += static_cast<float>(static_cast<int32_t>(state) / 2147483648.0);
    }
    values.push_back(sum);
  }
  return values;
}

struct Packed {
  std::vector<float> source;
  std::vector<std::byte> bytes;
  PackedLayout layout;

  Packed(PackedFormat format, int64_t rows, int64_t cols, bool search = false)
      : source(numbers(rows * cols, 7)), layout{format, rows, cols} {
    bytes.resize(static_cast<size_t>(layout.bytes()));
    pack(layout, source.data(), search, bytes.data());
  }
  PackedMatrix matrix() const { return {layout, bytes.data()}; }
  std::vector<float> unpacked() const {
    std::vector<float> values(source.size());
    for (int64_t r = 0; r < layout.rows; ++r) {
      unpack_row(matrix(), r, values.data() + r * layout.cols);
    }
    return values;
  }
  double relative_error() const {
    const std::vector<float> values = unpacked();
    double error = 0, size = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      error += std::pow(double(values[i]) - double(source[i]), 2);
      size += std::pow(double(source[i]), 2);
    }
    return std::sqrt(error / size);
  }
};

// Rows of x times W^T and a bias, all rows in one call.
std::vector<float> product(const Packed& w, const std::vector<float>& x, int64_t m,
                           const float* bias = nullptr) {
  const int64_t n = w.layout.rows, k = w.layout.cols;
  std::vector<float> y(static_cast<size_t>(m * n), -77.0f);
  const PackedProduct p{w.matrix(), 0, m, y.data(), n, bias};
  packed_gemm(x.data(), m, k, k, {&p, 1});
  return y;
}

class PackedOf : public testing::TestWithParam<PackedFormat> {};

TEST_P(PackedOf, ProductsMatchANaiveLoopForAnyShape) {
  constexpr struct {
    int64_t m, n, k;
  } kShapes[] = {{1, 1, 1},    {1, 16, 32},  {2, 17, 33},   {3, 64, 64},  {4, 65, 100},
                 {5, 130, 96}, {9, 31, 257}, {16, 100, 40}, {131, 48, 64}};
  for (const auto& [m, n, k] : kShapes) {
    const Packed w(GetParam(), n, k);
    const std::vector<float> values = w.unpacked(), x = numbers(m * k, 3), bias = numbers(n, 5);
    const std::vector<float> y = product(w, x, m, bias.data());
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = bias[size_t(j)], size = 0;
        for (int64_t c = 0; c < k; ++c) {
          const double term = double(x[size_t(i * k + c)]) * double(values[size_t(j * k + c)]);
          sum += term;
          size += std::abs(term);
        }
        // 16-bit activations: half a step of the largest of a group, each.
        ASSERT_NEAR(y[size_t(i * n + j)], sum, 1e-4 * (size + 0.1))
            << m << "x" << n << "x" << k << " at " << i << ", " << j;
      }
    }
  }
}

// Tiles of a large matrix are larger where there are few rows; the last one is cut off.
TEST_P(PackedOf, ALargeMatrixGivesTheBitsOfItsParts) {
  const int64_t n = 35001, k = 512, part = 16 * 100;
  const Packed w(GetParam(), n, k);
  const std::vector<float> x = numbers(4 * k, 3);
  for (const int64_t m : {1, 3, 4}) {
    const std::vector<float> all = product(w, x, m);
    for (int64_t begin = 0; begin < n; begin += part) {
      const int64_t count = std::min(part, n - begin);
      const PackedMatrix rows{{GetParam(), count, k}, w.matrix().panel(begin / kPanelRows)};
      std::vector<float> y(static_cast<size_t>(m * count), -77.0f);
      const PackedProduct p{rows, 0, m, y.data(), count};
      packed_gemm(x.data(), m, k, k, {&p, 1});
      for (int64_t i = 0; i < m; ++i) {
        ASSERT_EQ(0, std::memcmp(y.data() + i * count, all.data() + i * n + begin,
                                 static_cast<size_t>(count) * sizeof(float)))
            << m << " rows, from " << begin;
      }
    }
  }
}

TEST_P(PackedOf, BitsOfARowDependOnNothingElse) {
  const int64_t n = 200, k = 160, most = 37;
  const Packed w(GetParam(), n, k);
  const std::vector<float> x = numbers(most * k, 3);
  set_num_threads(1);
  const std::vector<float> all = product(w, x, most);
  for (const int threads : {1, 2, 3, 8, 16}) {
    set_num_threads(threads);
    for (const int64_t m : {1, 2, 3, 4, 7, 15, 16, 37}) {
      const std::vector<float> some = product(w, x, m);
      ASSERT_EQ(0, std::memcmp(some.data(), all.data(), some.size() * sizeof(float)))
          << threads << " threads, " << m << " rows";
    }
  }
}

TEST_P(PackedOf, SeveralProductsTakeTheirOwnRows) {
  const int64_t n = 48, k = 64, m = 9;
  const Packed w(GetParam(), n, k);
  const std::vector<float> x = numbers(m * k, 3), all = product(w, x, m);
  std::vector<float> y(static_cast<size_t>(m * n), 0.0f);
  const PackedProduct parts[] = {{w.matrix(), 2, 4, y.data(), n},
                                 {w.matrix(), 6, 3, y.data(), n},
                                 {w.matrix(), 6, 0, y.data(), n}};
  packed_gemm(x.data(), m, k, k, parts);
  for (int64_t i = 0; i < m * n; ++i) {
    EXPECT_EQ(y[size_t(i)], i < 2 * n ? 0.0f : all[size_t(i)]);
  }
}

TEST_P(PackedOf, WhatIsNotFiniteStaysSoAndZeroIsZero) {
  const int64_t n = 20, k = 64;
  const Packed w(GetParam(), n, k);
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = numbers(3 * k, 3);
    x[size_t(k + 40)] = bad;
    const std::vector<float> y = product(w, x, 3);
    for (int64_t j = 0; j < n; ++j) {
      EXPECT_TRUE(std::isfinite(y[size_t(j)]));
      EXPECT_TRUE(std::isnan(y[size_t(n + j)]));
      EXPECT_TRUE(std::isfinite(y[size_t(2 * n + j)]));
    }
  }
  for (const float tiny : {0.0f, 1e-40f}) {
    const std::vector<float> y = product(w, std::vector<float>(size_t(k), tiny), 1);
    for (const float value : y) EXPECT_NEAR(value, 0, 1e-30);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedOf, testing::Values(PackedFormat::q8, PackedFormat::q4),
                         [](const auto& i) { return i.param == PackedFormat::q8 ? "q8" : "q4"; });

TEST(Pack, ErrorsAreThoseOfTheFormats) {
  EXPECT_LT(Packed(PackedFormat::q8, 64, 512).relative_error(), 0.006);
  EXPECT_LT(Packed(PackedFormat::q4, 64, 512, true).relative_error(), 0.074);
  EXPECT_LT(Packed(PackedFormat::q4, 64, 512, true).relative_error(),
            Packed(PackedFormat::q4, 64, 512, false).relative_error());
}

TEST(Pack, ZeroWeightsStayZero) {
  for (const PackedFormat format : {PackedFormat::q8, PackedFormat::q4}) {
    const PackedLayout layout{format, 5, 40};
    std::vector<std::byte> bytes(static_cast<size_t>(layout.bytes()), std::byte{0x55});
    pack(layout, std::vector<float>(200, 0.0f).data(), true, bytes.data());
    std::vector<float> row(40, 1.0f);
    unpack_row({layout, bytes.data()}, 4, row.data());
    for (const float value : row) EXPECT_EQ(value, 0.0f);
  }
}

}  // namespace
}  // namespace tephra::cpu
