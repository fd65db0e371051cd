// SPDX-License-Identifier: Apache-2.0
// What linear promises beside its spec: messages, and results that the op suite cannot see.
#include "tephra/ops/linear.h"

#include <gtest/gtest.h>

#include "tephra/autograd/parameter.h"
#include "tephra/autograd/tape.h"
#include "tephra/core/rng.h"
#include "tephra/device/gpu/runtime.h"
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

ParameterStore store_of(const std::vector<int64_t>& rows, Device device) {
  std::vector<ParameterSpec> specs;
  for (size_t i = 0; i < rows.size(); ++i) {
    specs.push_back({format("w{}", i), {rows[i], 16}, ParameterKind::matrix, 0, 1});
  }
  return ParameterStore(specs, DType::f32, device, true);
}

TEST(Linear, SeesWeightsThatLieOneAfterAnother) {
  const ParameterStore store = store_of({8, 4, 3, 8}, kCpu);
  const Tensor &a = store.at(0), &b = store.at(1), &c = store.at(2), &d = store.at(3);
  EXPECT_EQ(joined_rows({a}), 8);
  EXPECT_EQ(joined_rows({a, b, c}), 15);
  EXPECT_EQ(joined_rows({a, b, c, d}), 0) << "parameters begin at multiples of 64 elements";
  EXPECT_EQ(joined_rows({b, a}), 0);
  EXPECT_EQ(joined_rows({a, {}}), 0);
  EXPECT_EQ(joined_rows({}), 0);
}

// Weights that lie so are multiplied as one, whatever of them is asked for.
TEST(GpuLinear, MultipliesJoinedWeightsAsTheCpuDoesOneByOne) {
  if (gpu::status().devices.empty()) GTEST_SKIP() << gpu::status().why_none;
  const auto gradients = [](Device device) {
    ParameterStore store = store_of({8, 4, 3}, device);
    Tensors weights;
    for (size_t i = 0; i < 3; ++i) {
      copy_into(store.at(i), random(store.at(i).shape(), DType::f32, uint32_t(10 + i)));
      weights.push_back(store.at(i));
    }
    Tensor x = to_device(random({40, 16}, DType::f32, 1), device);
    make_leaf(x, DType::f32);
    for (int pass = 0; pass < 2; ++pass) {  // the second one adds
      Tape tape;
      const Tensor y = linear(x, weights, Tensors{});
      tape.backward({y}, {to_device(random({40, 15}, DType::f32, 2), device)});
    }
    Tensors all{to_device(gradient(x), kCpu)};
    for (const Tensor& w : weights) all.push_back(to_device(gradient(w), kCpu));
    return all;
  };
  const Tensors got = gradients({Device::Kind::gpu, 0}), want = gradients(kCpu);
  for (size_t k = 0; k < got.size(); ++k) {
    for (int64_t i = 0; i < got[k].numel(); ++i) {
      EXPECT_NEAR(got[k].at(i), want[k].at(i), 1e-4) << k << " at " << i;
    }
  }
}

}  // namespace
}  // namespace tephra
