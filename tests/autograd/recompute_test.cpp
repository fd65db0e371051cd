// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tephra/core/rng.h"
#include "tests/autograd/toy_ops.h"

namespace tephra {
namespace {

using namespace toy;

int64_t total(const Tape& tape) {
  int64_t bytes = 0;
  for (const auto& [name, b] : tape.saved_bytes()) bytes += b;
  return bytes;
}

struct Outcome {
  Tensor grad;
  int64_t saved_bytes;
  int replays;
};

Tensor random_leaf(const Shape& shape) {
  Tensor x(shape, DType::f32);
  fill_normal(x, {1, 2, 3}, 0, 1);
  make_leaf(x, DType::f32);
  return x;
}

Outcome run_chain(const Recompute& recompute) {
  Tensor x = random_leaf({8, 16});
  Tape tape(recompute);
  Tensor h = x;
  for (int i = 0; i < 4; ++i) h = scale(square(h, OpClass::norm), 0.3, OpClass::activation);
  const Tensor loss = sum(square(h, OpClass::linear));
  const int64_t bytes = total(tape);
  forwards() = 0;
  tape.backward(loss);
  return {clone(gradient(x)), bytes, forwards()};
}

TEST(Recompute, GivesTheSameBitsAndKeepsLess) {
  const Outcome kept = run_chain({});
  const Outcome some = run_chain({OpClass::activation});
  const Outcome all = run_chain(Recompute::everything());
  constexpr int64_t kTensor = 8 * 16 * 4;
  EXPECT_EQ(kept.saved_bytes, 5 * kTensor) << "the input of each square";
  EXPECT_EQ(some.saved_bytes, 5 * kTensor) << "the inputs of the scales instead of their outputs";
  EXPECT_EQ(all.saved_bytes, kTensor) << "the leaf alone";
  EXPECT_TRUE(same_bits(kept.grad, some.grad));
  EXPECT_TRUE(same_bits(kept.grad, all.grad));
  EXPECT_EQ(kept.replays, 0);
  EXPECT_EQ(some.replays, 4) << "each scale once";
  EXPECT_EQ(all.replays, 8) << "each op of the chain once; nothing needs the last square";
}

TEST(Recompute, ReplaysColumnViews) {
  Tensor grads[2];
  for (const bool replay : {false, true}) {
    Tensor x = random_leaf({4, 6});
    Tape tape(replay ? Recompute::everything() : Recompute());
    const Tensor qk = scale(x, 1.5, OpClass::linear);
    const Tensor loss =
        add(sum(square(slice_columns(qk, 0, 2))), sum(square(slice_columns(qk, 3, 6))));
    EXPECT_EQ(total(tape), replay ? 4 * 6 * 4 : 4 * 2 * 4 + 4 * 3 * 4);
    tape.backward(loss);
    grads[replay] = clone(gradient(x));
  }
  EXPECT_TRUE(same_bits(grads[0], grads[1]));
}

// y = 2 x and a choice; the choice is always kept, as expert ids are.
Tensors choose(const Tensor& x) {
  ++forwards();
  Tensor y = empty_like(x), choice = empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    y.set(i, 2 * x.at(i));
    choice.set(i, x.at(i) > 0 ? 1 : 0);
  }
  record(
      {.name = "choose", .op_class = OpClass::router, .inputs = {x}, .always_kept = 0b10},
      {&y, &choice},
      [](const Tensors&, const Tensors& dy, GradSink& sink) {
        Tensor dx = clone(dy[0]);
        add_into(dx, dy[0]);
        sink.give(0, dx);
      },
      [](const Tensors& in) { return choose(in[0]); });
  return {y, choice};
}

Tensor masked(const Tensor& y, const Tensor& choice) {
  Tensor z = empty_like(y);
  for (int64_t i = 0; i < y.numel(); ++i) z.set(i, y.at(i) * choice.at(i));
  record({.name = "masked", .op_class = OpClass::loss, .inputs = {y, choice}, .saved = {choice}},
         {&z}, [](const Tensors& saved, const Tensors& dy, GradSink& sink) {
           Tensor dx = empty_like(dy[0]);
           for (int64_t i = 0; i < dx.numel(); ++i) dx.set(i, dy[0].at(i) * saved[0].at(i));
           sink.give(0, dx);
         });
  return z;
}

TEST(Recompute, HoldsWhatIsAlwaysKept) {
  Tensor x = random_leaf({2, 8});
  Tape tape(Recompute::everything());
  const Tensors out = choose(x);
  const Tensor loss = sum(masked(out[0], out[1]));
  EXPECT_EQ(tape.saved_bytes().at("masked"), 2 * 8 * 4);
  forwards() = 0;
  tape.backward(loss);
  EXPECT_EQ(forwards(), 0) << "a kept output is not computed again";
  EXPECT_EQ(gradient(x).at(0), x.at(0) > 0 ? 2 : 0);
}

TEST(Recompute, FreesWhatBackwardHasUsed) {
  Tensor x = random_leaf({1000, 16});
  const auto live = [] { return memory_use()[static_cast<size_t>(Purpose::activations)].bytes; };
  const int64_t before = live();
  {
    Tape tape;
    const Tensor loss = sum(square(scale(x, 2)));
    EXPECT_GE(live() - before, 1000 * 16 * 4) << "square's input waits for backward";
    tape.backward(loss);
    EXPECT_LE(live() - before, 4096) << "the tape is alive but holds nothing large any more";
  }
  EXPECT_EQ(live(), before);
}

TEST(SavedBytes, CountATensorOnce) {
  Tensor x = random_leaf({4, 4});
  Tape tape;
  square(x);
  square(x);
  EXPECT_EQ(total(tape), 4 * 4 * 4);
}

}  // namespace
}  // namespace tephra
