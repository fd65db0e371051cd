// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/shape.h"

#include <gtest/gtest.h>

#include <vector>

namespace tephra {
namespace {

TEST(Shape, SplitsIntoRowsAndColumns) {
  const Shape s{3, 5, 7};
  EXPECT_EQ(s.ndim(), 3);
  EXPECT_EQ(s.numel(), 105);
  EXPECT_EQ(s.rows(), 15);
  EXPECT_EQ(s.cols(), 7);
  EXPECT_EQ(s[0], 3);
  EXPECT_EQ(s[-1], 7);
  EXPECT_EQ(to_text(s), "[3, 5, 7]");
}

TEST(Shape, OfAScalarHasOneElement) {
  const Shape s;
  EXPECT_EQ(s.ndim(), 0);
  EXPECT_EQ(s.numel(), 1);
  EXPECT_EQ(s.rows(), 1);
  EXPECT_EQ(s.cols(), 1);
  EXPECT_EQ(to_text(s), "[]");
}

TEST(Shape, MayBeEmpty) {
  EXPECT_EQ((Shape{0, 4}).numel(), 0);
  EXPECT_EQ((Shape{4, 0}).rows(), 4);
  EXPECT_EQ((Shape{0, 4}).cols(), 4);
}

TEST(Shape, ComparesByExtents) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{6}), (Shape{6, 1}));
}

std::string error_of(const std::vector<int64_t>& dims) {
  try {
    const Shape shape{std::span<const int64_t>(dims)};
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::usage);
    return e.what();
  }
  return "";
}

TEST(Shape, RefusesWhatItCannotHold) {
  EXPECT_EQ(error_of({1, 1, 1, 1, 1}), "a tensor has at most 4 dimensions, got 5");
  EXPECT_EQ(error_of({2, -1}), "a dimension cannot be negative, got -1");
}

TEST(Shape, RefusesProductsThatOverflow) {
  constexpr int64_t kBig = int64_t{1} << 32;
  EXPECT_EQ(error_of({kBig, kBig}),
            "a tensor has at most 2^56 elements, got 4294967296 x 4294967296");
  EXPECT_NE(error_of({kBig, kBig, 0}), "") << "rows() of it would overflow";
  EXPECT_EQ(error_of({kBig, int64_t{1} << 24}), "");
}

TEST(Shape, AsksForAnIndexInRange) { EXPECT_THROW((Shape{2, 3})[2], Error); }

}  // namespace
}  // namespace tephra
