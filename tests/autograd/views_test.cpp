// SPDX-License-Identifier: Apache-2.0
// Gradients through column views: q, k and v are columns of one product.
#include <gtest/gtest.h>

#include "tests/autograd/toy_ops.h"

namespace tephra {
namespace {

using namespace toy;
using Doubles = std::vector<double>;

Tensor counted_leaf(int64_t rows, int64_t cols) {
  Tensor t({rows, cols}, DType::f32);
  for (int64_t i = 0; i < t.numel(); ++i) t.set(i, static_cast<double>(i));
  make_leaf(t, DType::f32);
  return t;
}

TEST(ColumnViews, WriteTheirPartOfTheGradient) {
  Tensor x = counted_leaf(2, 4);
  poison_new_memory(true);
  Tape tape;
  const Tensor y = scale(x, 1);
  const Tensor left = scale(slice_columns(y, 0, 1), 2), right = scale(slice_columns(y, 1, 4), 3);
  tape.backward(add(sum(left), sum(right)));
  poison_new_memory(false);
  EXPECT_EQ(list(gradient(x)), (Doubles{2, 3, 3, 3, 2, 3, 3, 3}));
}

TEST(ColumnViews, LeaveZeroWhereNobodyWrote) {
  Tensor x = counted_leaf(2, 5);
  poison_new_memory(true);
  Tape tape;
  const Tensor y = scale(x, 1);
  tape.backward(add(sum(scale(slice_columns(y, 3, 4), 7)), sum(scale(slice_columns(y, 1, 2), 5))));
  poison_new_memory(false);
  EXPECT_EQ(list(gradient(x)), (Doubles{0, 5, 0, 7, 0, 0, 5, 0, 7, 0}));
}

TEST(ColumnViews, OfALeafLeaveZeroToo) {
  Tensor x = counted_leaf(1, 4);
  fill(gradient(x), 99);
  Tape tape;
  tape.backward(sum(slice_columns(x, 1, 2)));
  EXPECT_EQ(list(gradient(x)), (Doubles{0, 1, 0, 0}));
}

TEST(ColumnViews, ThatOverlapAddUp) {
  Tensor x = counted_leaf(1, 6);
  poison_new_memory(true);
  Tape tape;
  const Tensor y = scale(x, 1);
  const Tensor a = sum(scale(slice_columns(y, 0, 3), 1));
  const Tensor b = sum(scale(slice_columns(y, 2, 5), 10));
  const Tensor c = sum(scale(slice_columns(y, 1, 6), 100));
  tape.backward(add(add(a, b), c));
  poison_new_memory(false);
  EXPECT_EQ(list(gradient(x)), (Doubles{1, 101, 111, 110, 110, 100}));
}

TEST(ColumnViews, AndTheWholeAddUp) {
  Tensor x = counted_leaf(1, 3);
  Tape tape;
  const Tensor y = scale(x, 1);
  tape.backward(add(sum(scale(y, 2)), sum(scale(slice_columns(y, 1, 3), 5))));
  EXPECT_EQ(list(gradient(x)), (Doubles{2, 7, 7}));
}

TEST(ColumnViews, OfViewsReachTheBase) {
  Tensor x = counted_leaf(2, 6);
  Tape tape;
  const Tensor y = scale(x, 1);
  const Tensor inner = slice_columns(slice_columns(y, 1, 6), 2, 4);
  EXPECT_EQ(inner.at(0), 3);
  EXPECT_EQ(inner.variable()->base, y.variable());
  tape.backward(sum(square(inner)));
  EXPECT_EQ(list(gradient(x)), (Doubles{0, 0, 0, 6, 8, 0, 0, 0, 0, 18, 20, 0}));
}

TEST(ColumnViews, OfALeafReportItOnceAndWhole) {
  Tensor x = counted_leaf(1, 4);
  std::vector<const Variable*> seen;
  Tape tape;
  const Tensor loss = add(sum(slice_columns(x, 0, 2)), sum(slice_columns(x, 2, 4)));
  tape.backward(loss, [&](Variable& v) { seen.push_back(&v); });
  EXPECT_EQ(seen, (std::vector<const Variable*>{x.variable().get()}));
}

TEST(ColumnViews, OfAPlainTensorHaveNoGradient) {
  const Tensor x = values({1, 2}, {1, 2});
  const Tape tape;
  EXPECT_EQ(slice_columns(x, 0, 1).variable(), nullptr);
}

TEST(GradSink, RefusesAGradientOfAnotherShape) {
  Tensor x = counted_leaf(2, 3);
  GradSink sink({x.variable()});
  EXPECT_THROW(sink.give(0, zeros({3, 2}, DType::f32)), Error);
}

TEST(GradSink, ConvertsToTheDtypeOfTheGradient) {
  Tensor w = to_dtype(values({2}, {1, 2}), DType::bf16);
  make_leaf(w, DType::f32);
  GradSink sink({w.variable()});
  sink.give(0, to_dtype(values({2}, {0.5, 3}), DType::bf16));
  sink.give(0, values({2}, {1e-4f, 0}));
  EXPECT_EQ(gradient(w).dtype(), DType::f32);
  EXPECT_FLOAT_EQ(static_cast<float>(gradient(w).at(0)), 0.5001f) << "sums are kept in f32";
}

TEST(AddInto, AddsAcrossStridesAndDtypes) {
  const Tensor a = zeros({2, 4}, DType::f32), b = values({2, 2}, {1, 2, 3, 4});
  add_into(a.column_view(1, 3), to_dtype(b, DType::bf16));
  add_into(a.column_view(1, 3), b);
  EXPECT_EQ(list(a), (Doubles{0, 2, 4, 0, 0, 6, 8, 0}));
  EXPECT_THROW(add_into(a, b), Error);
}

}  // namespace
}  // namespace tephra
