// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/difference.h"

namespace tephra {
namespace {

Tensor counted(const Shape& shape, DType dtype = DType::f32) {
  Tensor t(shape, dtype);
  for (int64_t i = 0; i < t.numel(); ++i) t.set(i, static_cast<double>(i));
  return t;
}

TEST(Tensor, IsUndefinedUntilGivenAShape) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(static_cast<bool>(none));
  EXPECT_THROW(none.raw(), Error);
}

TEST(Tensor, CopiesShareMemoryAndClonesDoNot) {
  const Tensor a = counted({2, 3});
  const Tensor shared = a;
  const Tensor own = clone(a);
  a.set(0, 42);
  EXPECT_EQ(shared.at(0), 42);
  EXPECT_EQ(own.at(0), 0);
  EXPECT_FALSE(a.sole_owner());
  EXPECT_TRUE(own.sole_owner());
}

TEST(Tensor, StartsOnACacheLine) {
  for (const int64_t n : {1, 7, 1000, 100'000, 5'000'000}) {
    const Tensor t({n}, DType::u8);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0u) << n;
  }
}

TEST(Tensor, ColumnsAreAViewWithTheStrideOfTheWhole) {
  const Tensor a = counted({3, 5});
  const Tensor middle = a.column_view(1, 4);
  EXPECT_EQ(middle.shape(), (Shape{3, 3}));
  EXPECT_EQ(middle.row_stride(), 5);
  EXPECT_FALSE(middle.dense());
  EXPECT_EQ(middle.at(0), 1);
  EXPECT_EQ(middle.at(3), 6);
  EXPECT_EQ(middle.row<float>(2)[2], 13);
  middle.set(8, -1);
  EXPECT_EQ(a.at(13), -1);
}

TEST(Tensor, ViewsOfViewsKeepTheirPlace) {
  const Tensor a = counted({4, 6});
  const Tensor inner = a.column_view(1, 6).column_view(2, 4).slice_rows(1, 3);
  EXPECT_EQ(inner.shape(), (Shape{2, 2}));
  EXPECT_EQ(inner.row_stride(), 6);
  EXPECT_EQ(inner.at(0), 9);
  EXPECT_EQ(inner.at(3), 16);
}

TEST(Tensor, RowsFlattenTheLeadingDimensions) {
  const Tensor a = counted({2, 3, 4});
  const Tensor rows = a.slice_rows(2, 5);
  EXPECT_EQ(rows.shape(), (Shape{3, 4}));
  EXPECT_TRUE(rows.dense());
  EXPECT_EQ(rows.at(0), 8);
  EXPECT_EQ(a.slice_rows(6, 6).numel(), 0);
}

TEST(Tensor, ReshapesOnlyWhatIsDense) {
  const Tensor a = counted({2, 6});
  EXPECT_EQ(a.view({3, 4}).at(11), 11);
  EXPECT_THROW(a.view({5}), Error);
  EXPECT_THROW(a.column_view(0, 3).view({6}), Error);
  EXPECT_EQ(counted({1, 6}).column_view(2, 5).view({3}).at(2), 4) << "one row is always dense";
}

TEST(Tensor, SlicesOutOfRangeSayTheRange) {
  const Tensor a = counted({2, 6});
  try {
    a.slice_rows(1, 3);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "slice_rows: [1, 3) is not within 2 rows");
  }
  try {
    a.column_view(4, 7);
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "columns [4, 7) are not within [2, 6]");
  }
}

TEST(Tensor, ChecksTheDtypeThatAKernelAsksFor) {
  const Tensor a = counted({2}, DType::f32);
  EXPECT_THROW(a.data<double>(), Error);
}

TEST(Tensor, ChecksIndices) {
  const Tensor a = counted({2, 2});
  EXPECT_THROW(a.at(4), Error);
  EXPECT_THROW(a.set(-1, 0), Error);
}

TEST(Tensor, LiesWithinItsStorage) {
  const auto storage = Storage::allocate(kCpu, 64, Purpose::workspace);
  EXPECT_EQ(Tensor(storage, 32, {8}, DType::f32).numel(), 8);
  EXPECT_THROW(Tensor(storage, 36, {8}, DType::f32), Error);
}

TEST(Tensor, ConvertsBetweenAllNumberTypes) {
  const std::vector<DType> types = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                    DType::i64, DType::i32, DType::i16,  DType::i8};
  for (const DType from : types) {
    for (const DType to : types) {
      Tensor a({2, 2}, from);
      const double values[] = {0, 1, -2, 100};
      for (int64_t i = 0; i < 4; ++i) a.set(i, values[i]);
      const Tensor b = to_dtype(a, to);
      EXPECT_EQ(b.dtype(), to);
      for (int64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(b.at(i), values[i]) << to_text(from) << " to " << to_text(to);
      }
    }
  }
}

TEST(Tensor, RoundsToBf16ToNearestEven) {
  Tensor a({4}, DType::f32);
  a.set(0, 1.0 + 0x1.0p-8);      // half way between 1 and the next: to even, down
  a.set(1, 1.0 + 3 * 0x1.0p-8);  // half way: to even, up
  a.set(2, 1.0 + 0x1.0p-8 + 0x1.0p-20);
  a.set(3, std::nan(""));
  const Tensor b = to_dtype(a, DType::bf16);
  EXPECT_EQ(b.at(0), 1.0);
  EXPECT_EQ(b.at(1), 1.0 + 4 * 0x1.0p-8);
  EXPECT_EQ(b.at(2), 1.0 + 2 * 0x1.0p-8);
  EXPECT_TRUE(std::isnan(b.at(3)));
}

TEST(Differences, OfNumbersThatAreNoneAreInfinite) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const Tensor numbers = from_values<float>({3}, {1, 2, 3});
  Tensor broken = clone(numbers);
  EXPECT_EQ(largest_difference(broken, numbers), 0);
  broken.set(1, nan);
  EXPECT_EQ(largest_difference(broken, numbers), inf);
  EXPECT_EQ(largest_difference(numbers, broken), inf);
  EXPECT_THROW(largest_value(broken), Error);
  broken.set(1, -inf);
  EXPECT_EQ(largest_difference(broken, broken), 0);
  EXPECT_THROW(largest_value(broken), Error) << "a bound of all";
  broken.set(1, -4);
  EXPECT_EQ(largest_value(broken), 4);
  EXPECT_EQ(difference(inf, inf), 0);
  EXPECT_EQ(difference(inf, -inf), inf);
}

TEST(Tensor, ReadsEveryF16AndWritesItBack) {
  Tensor a({1 << 16}, DType::f16);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<f16>()[i].bits = static_cast<uint16_t>(i);
  const Tensor wide = to_dtype(a, DType::f32);
  const Tensor back = to_dtype(wide, DType::f16);
  EXPECT_EQ(wide.at(0x3c00), 1);
  EXPECT_EQ(wide.at(0xc000), -2);
  EXPECT_EQ(wide.at(0x0001), 0x1.0p-24) << "the smallest subnormal";
  EXPECT_EQ(wide.at(0x7bff), 65504);
  EXPECT_EQ(wide.at(0x7c00), std::numeric_limits<double>::infinity());
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (std::isnan(wide.at(i))) continue;
    ASSERT_EQ(back.data<f16>()[i].bits, static_cast<uint16_t>(i));
  }
}

TEST(Tensor, ReadsFp8ButNeverWritesIt) {
  Tensor a({4}, DType::fp8_e4m3);
  const uint8_t bits[] = {0x38, 0x7e, 0x01, 0x7f};
  for (int64_t i = 0; i < 4; ++i) a.data<fp8_e4m3>()[i].bits = bits[i];
  const Tensor wide = to_dtype(a, DType::f32);
  EXPECT_EQ(wide.at(0), 1);
  EXPECT_EQ(wide.at(1), 448);
  EXPECT_EQ(wide.at(2), 0x1.0p-9);
  EXPECT_TRUE(std::isnan(wide.at(3)));
  EXPECT_THROW(to_dtype(wide, DType::fp8_e4m3), Error);
}

TEST(Tensor, IsItselfWhenItHasTheDtypeAlready) {
  const Tensor a = counted({2});
  EXPECT_EQ(to_dtype(a, DType::f32).raw(), a.raw());
}

TEST(Tensor, CopiesBetweenStridedViews) {
  const Tensor a = counted({3, 4});
  const Tensor b = zeros({3, 6}, DType::f64);
  copy_into(b.column_view(2, 4), a.column_view(1, 3));
  EXPECT_EQ(b.at(2), 1);
  EXPECT_EQ(b.at(14), 9);
  EXPECT_EQ(b.at(15), 10);
  EXPECT_EQ(b.at(4), 0);
  EXPECT_THROW(copy_into(a, b), Error);
}

TEST(Tensor, FillsOnlyItsOwnColumns) {
  const Tensor a = zeros({2, 3}, DType::f32);
  fill(a.column_view(1, 2), 7);
  EXPECT_EQ(a.at(0), 0);
  EXPECT_EQ(a.at(1), 7);
  EXPECT_EQ(a.at(2), 0);
  EXPECT_EQ(a.at(4), 7);
}

TEST(Tensor, ComparesBitsAcrossStrides) {
  const Tensor a = counted({3, 4});
  EXPECT_TRUE(same_bits(a.column_view(1, 3), clone(a.column_view(1, 3))));
  const Tensor plus = zeros({1}, DType::f32), minus = clone(plus);
  minus.set(0, -0.0);
  EXPECT_FALSE(same_bits(plus, minus));
  EXPECT_FALSE(same_bits(a, to_dtype(a, DType::f64)));
  EXPECT_FALSE(same_bits(a, a.view({4, 3})));
}

TEST(Tensor, TakesExactlyAsManyValuesAsItHolds) {
  EXPECT_EQ(from_values<float>({2, 2}, {1, 2, 3, 4}).at(3), 4);
  EXPECT_THROW(from_values<float>({2, 2}, {1, 2, 3}), Error);
  EXPECT_EQ(from_values<int32_t>({0}, {}).numel(), 0);
}

TEST(DType, NamesReadBack) {
  for (const DType d : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32}) {
    EXPECT_EQ(parse_dtype(to_text(d)), d);
  }
  EXPECT_EQ(parse_dtype("bfloat16"), DType::bf16);
  EXPECT_EQ(parse_dtype("float99"), std::nullopt);
}

TEST(DType, OpsRefuseWhatDoesNotCompute) {
  EXPECT_THROW(visit_float(DType::i32, []<class T>() { return 0; }), Error);
  EXPECT_THROW(visit_float(DType::f16, []<class T>() { return 0; }), Error);
}

}  // namespace
}  // namespace tephra
