// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/parameter.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tephra/base/signals.h"
#include "tests/autograd/toy_ops.h"
#include "tests/support/error_of.h"

namespace tephra {
namespace {

using namespace toy;

std::vector<ParameterSpec> specs() {
  return {{"a.weight", {3, 5}, ParameterKind::matrix, 0, 0.5},
          {"a.count", {4}, ParameterKind::buffer, 2, 0},
          {"b.experts", {2, 7, 9}, ParameterKind::experts, 0, 0.1},
          {"c.scale", {65}, ParameterKind::vector, 1, 0},
          {"d.weight", {8, 8}, ParameterKind::matrix, 0, 1}};
}

ParameterStore store(DType dtype = DType::f32, bool gradients = true) {
  return ParameterStore(specs(), dtype, kCpu, gradients);
}

TEST(ParameterStore, LaysParametersOutInOneAlignedBuffer) {
  const ParameterStore p = store();
  EXPECT_EQ(p.offset(0), 0);
  EXPECT_EQ(p.offset(1), -1) << "a buffer is not trained";
  EXPECT_EQ(p.offset(2), 64);
  EXPECT_EQ(p.offset(3), 192);
  EXPECT_EQ(p.offset(4), 320);
  EXPECT_EQ(p.flat_values().numel(), 384);
  EXPECT_EQ(p.flat_gradients().shape(), p.flat_values().shape());
  for (const size_t i : {0, 2, 3, 4}) {
    const char* base = static_cast<const char*>(p.flat_values().raw());
    EXPECT_EQ(p.at(i).raw(), base + p.offset(i) * 4) << i;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p.at(i).raw()) % 64, 0u) << i;
    EXPECT_EQ(gradient(p.at(i)).raw(),
              static_cast<char*>(p.flat_gradients().raw()) + p.offset(i) * 4);
  }
}

// Of a large model both take minutes.
TEST(ParameterStore, StopsWhileItIsMadeAndWhileItIsDrawn) {
  install_signal_handlers();
  ParameterStore made = store();
  std::raise(SIGINT);
  EXPECT_EQ(error_of([] { store(); }).fault(), Fault::interrupted);
  EXPECT_EQ(error_of([&] { made.initialise(1); }).fault(), Fault::interrupted);
  EXPECT_TRUE(take_interrupt());
  made.initialise(1);
}

TEST(ParameterStore, IsAlignedInBf16AndSumsGradientsInF32) {
  const ParameterStore p = store(DType::bf16);
  for (const size_t i : {0, 2, 3, 4}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p.at(i).raw()) % 64, 0u) << i;
  }
  EXPECT_EQ(p.flat_values().dtype(), DType::bf16);
  EXPECT_EQ(p.flat_gradients().dtype(), DType::f32);
  EXPECT_EQ(p["a.count"].dtype(), DType::f32) << "buffers keep acc precision";
}

TEST(ParameterStore, FindsParametersByName) {
  const ParameterStore p = store();
  EXPECT_EQ(p["b.experts"].shape(), (Shape{2, 7, 9}));
  EXPECT_TRUE(p.contains("a.count"));
  EXPECT_FALSE(p.contains("nope"));
  try {
    p["nope"];
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "no parameter named 'nope'");
  }
  EXPECT_THROW(ParameterStore({{"x", {1}}, {"x", {2}}}, DType::f32, kCpu, false), Error);
}

TEST(ParameterStore, WithoutGradientsHasNoLeaves) {
  const ParameterStore p = store(DType::f32, false);
  EXPECT_FALSE(p.flat_gradients().defined());
  EXPECT_EQ(p.at(0).variable(), nullptr);
}

TEST(ParameterStore, InitialisesEachParameterByItsNameAlone) {
  ParameterStore p = store();
  p.initialise(7);
  std::vector<ParameterSpec> reversed = specs();
  std::reverse(reversed.begin(), reversed.end());
  ParameterStore q(reversed, DType::f32, kCpu, false);
  q.initialise(7);
  for (const ParameterSpec& s : specs()) EXPECT_TRUE(same_bits(p[s.name], q[s.name])) << s.name;
  EXPECT_EQ(p["c.scale"].at(64), 1);
  EXPECT_EQ(p["a.count"].at(0), 2);
  q.initialise(8);
  EXPECT_FALSE(same_bits(p["d.weight"], q["d.weight"]));
}

TEST(ParameterStore, KeepsItsPaddingZero) {
  ParameterStore p = store();
  p.initialise(7);
  Tape tape;
  Tensor loss = sum(square(p["a.weight"]));
  for (const char* name : {"b.experts", "c.scale", "d.weight"})
    loss = add(loss, sum(square(p[name])));
  tape.backward(loss);
  p.complete_gradients();
  std::vector<bool> used(static_cast<size_t>(p.flat_values().numel()));
  for (const size_t i : {0, 2, 3, 4}) {
    for (int64_t k = 0; k < p.at(i).numel(); ++k) {
      used[static_cast<size_t>(p.offset(i) + k)] = true;
      EXPECT_EQ(p.flat_gradients().at(p.offset(i) + k), 2 * p.at(i).at(k));
    }
  }
  for (size_t k = 0; k < used.size(); ++k) {
    if (used[k]) continue;
    EXPECT_EQ(p.flat_values().at(static_cast<int64_t>(k)), 0);
    EXPECT_EQ(p.flat_gradients().at(static_cast<int64_t>(k)), 0);
  }
}

TEST(ParameterStore, ClearsAndCompletesGradients) {
  ParameterStore p = store();
  fill(p.flat_gradients(), 99);
  p.initialise(7);
  p.clear_gradients();
  Tape tape;
  tape.backward(sum(p["c.scale"]));
  p.complete_gradients();
  EXPECT_EQ(gradient(p["c.scale"]).at(3), 1);
  EXPECT_EQ(p.flat_gradients().at(p.offset(0)), 0) << "nothing reached a.weight";
}

TEST(ParameterStore, FiresItsBucketsInAFixedOrderWhenTheyAreComplete) {
  ParameterStore p = store();
  p.make_buckets(100);  // from the end: d (256 bytes), c (260), b (504), a (60)
  EXPECT_EQ(p.num_buckets(), 4);
  p.make_buckets(300);  // d + c, b, a
  ASSERT_EQ(p.num_buckets(), 3);
  for (int run = 0; run < 2; ++run) {
    fill(p.flat_gradients(), 99);
    p.clear_gradients();
    std::vector<int64_t> fired;
    Tape tape;
    Tensor loss = sum(scale(p["a.weight"], 2));
    loss = add(loss, sum(scale(p["c.scale"], 3)));
    loss = add(loss, sum(scale(p["d.weight"], 4)));
    p.backward(tape, loss, [&](int64_t bucket) {
      fired.push_back(bucket);
      if (bucket == 0) {
        EXPECT_EQ(p.flat_gradients().at(p.offset(3)), 3);
        EXPECT_EQ(p.flat_gradients().at(p.offset(4)), 4);
      } else if (bucket == 1) {
        EXPECT_EQ(p.flat_gradients().at(p.offset(2)), 0) << "b is unused, hence zero";
      } else {
        EXPECT_EQ(p.flat_gradients().at(p.offset(0)), 2);
      }
    });
    EXPECT_EQ(fired, (std::vector<int64_t>{0, 2, 1})) << "what the walk never touched comes last";
  }
}

TEST(ParameterStore, FiresABucketWithZeroWhereNoGradientCame) {
  ParameterStore p = store();
  p.make_buckets(1 << 20);
  fill(p.flat_gradients(), 99);
  p.clear_gradients();
  int fired = 0;
  Tape tape;
  Tensor loss = sum(p["a.weight"]);
  for (const char* name : {"b.experts", "c.scale", "d.weight"}) scale(p[name], 2);  // leads nowhere
  p.backward(tape, loss, [&](int64_t) {
    ++fired;
    EXPECT_EQ(p.flat_gradients().at(p.offset(0)), 1);
    EXPECT_EQ(p.flat_gradients().at(p.offset(2)), 0);
    EXPECT_EQ(p.flat_gradients().at(p.offset(4)), 0);
  });
  EXPECT_EQ(fired, 1);
}

TEST(ParameterStore, OfNothingIsEmpty) {
  ParameterStore p({}, DType::f32, kCpu, true);
  p.initialise(1);
  p.clear_gradients();
  p.complete_gradients();
  p.make_buckets(1);
  EXPECT_EQ(p.flat_values().numel(), 0);
  EXPECT_EQ(p.num_buckets(), 0);
}

}  // namespace
}  // namespace tephra
