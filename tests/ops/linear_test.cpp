// SPDX-License-Identifier: Apache-2.0
// What linear promises beside its spec: messages, and results that the op suite cannot see.
#include "tephra/ops/linear.h"

#include <gtest/gtest.h>

#include "tephra/autograd/tape.h"
#include "tephra/core/rng.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

Tensor random(const Shape& shape, DType dtype, uint32_t stream) {
  Tensor t(shape, dtype);
  fill_normal(t, {11, stream, 0}, 0, 1);
  return t;
}

TEST(Linear, NamesBothShapesWhenTheyDoNotFit) {
  const Tensor x({2, 4}, DType::f32), w({3, 4}, DType::f32);
  EXPECT_EQ(message_of([&] {
              linear(x, Tensor({3, 5}, DType::f32));
            }),
            "linear: weight must be [out, 4] to match the last axis of x [2, 4], got [3, 5]");
  EXPECT_EQ(message_of([&] { linear(x, w, Tensor({4}, DType::f32)); }),
            "linear: bias must be [3] to match weight [3, 4], got [4]");
  EXPECT_EQ(message_of([&] {
              linear(Tensor({2, 4}, DType::bf16), w);
            }),
            "linear: weight is f32, x is bf16");
  EXPECT_EQ(message_of([&] { linear(x, w, Tensor({3}, DType::bf16)); }),
            "linear: bias is bf16, x is f32");
  EXPECT_EQ(message_of([&] { linear(Tensor({4}, DType::f32), w); }),
            "linear: x must be [tokens, width], got [4]");
  EXPECT_EQ(message_of([&] {
              linear(x, Tensors{w, w}, Tensors{Tensor()});
            }),
            "linear: expected one bias per weight (2), got 1");
  EXPECT_EQ(message_of([&] { linear(x, Tensors{}, Tensors{}); }),
            "linear: expected at least one weight");
}

TEST(Linear, SideBySideIsTheSameAsOneByOne) {
  const Tensor x = random({40, 24}, DType::f32, 1);
  const Tensor a = random({16, 24}, DType::f32, 2), b = random({5, 24}, DType::f32, 3);
  const Tensor both = linear(x, Tensors{a, b}, Tensors{});
  EXPECT_TRUE(same_bits(both.column_view(0, 16), linear(x, a)));
  EXPECT_TRUE(same_bits(both.column_view(16, 21), linear(x, b)));
}

TEST(Linear, AddsUpTheGradientOfAWeightThatIsGivenTwice) {
  const Tensor x = random({20, 8}, DType::f32, 1);
  Tensor once = random({6, 8}, DType::f32, 2), twice = clone(once);
  make_leaf(once, DType::f32);
  make_leaf(twice, DType::f32);
  {
    Tape tape;
    const Tensor y = linear(x, once);
    tape.backward({y}, {full(y.shape(), DType::f32, 1)});
  }
  {
    Tape tape;
    const Tensor y = linear(x, Tensors{twice, twice}, Tensors{});
    tape.backward({y}, {full(y.shape(), DType::f32, 1)});
  }
  for (int64_t i = 0; i < once.numel(); ++i) {
    EXPECT_NEAR(gradient(twice).at(i), 2 * gradient(once).at(i), 1e-5);
  }
}

TEST(Linear, RoundsOnceWhenTheResultIsBf16) {
  const Tensor x = random({20, 64}, DType::bf16, 1), w = random({9, 64}, DType::bf16, 2);
  const Tensor b = random({9}, DType::bf16, 3);
  const Tensor wide = linear_acc(x, w, b);
  EXPECT_EQ(wide.dtype(), DType::f32);
  EXPECT_TRUE(same_bits(linear(x, w, b), to_dtype(wide, DType::bf16)));
}

}  // namespace
}  // namespace tephra
