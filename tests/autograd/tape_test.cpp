// SPDX-License-Identifier: Apache-2.0
#include "tephra/autograd/tape.h"

#include <gtest/gtest.h>

#include "tests/autograd/toy_ops.h"

namespace tephra {
namespace {

using namespace toy;
using Doubles = std::vector<double>;

TEST(Tape, WalksBackInReverseOrder) {
  Tensor x = leaf({2}, {1, 2});
  Tape tape;
  const Tensor loss = sum(square(scale(x, 3)));
  walked().clear();
  tape.backward(loss);
  EXPECT_EQ(walked(), (std::vector<std::string>{"sum", "square", "scale"}));
  EXPECT_EQ(list(gradient(x)), (Doubles{18, 36}));
}

TEST(Tape, SkipsOpsThatNoGradientReaches) {
  Tensor x = leaf({1}, {2});
  Tape tape;
  const Tensor y = scale(x, 3);
  square(y);
  walked().clear();
  tape.backward(sum(y));
  EXPECT_EQ(walked(), (std::vector<std::string>{"sum", "scale"}));
}

TEST(Tape, AddsUpTheGradientsOfALeafUsedTwice) {
  Tensor x = leaf({2}, {1, 2});
  Tape tape;
  tape.backward(sum(add(scale(x, 3), square(x))));
  EXPECT_EQ(list(gradient(x)), (Doubles{3 + 2, 3 + 4}));
}

TEST(Tape, OverwritesFirstAndAddsThenUntilCleared) {
  Tensor x = leaf({1}, {1});
  fill(gradient(x), 99);  // what an earlier step left there
  for (int micro_batch = 1; micro_batch <= 3; ++micro_batch) {
    Tape tape;
    tape.backward(sum(scale(x, 5)));
    EXPECT_EQ(gradient(x).at(0), 5 * micro_batch);
  }
  clear_gradient(x);
  EXPECT_EQ(gradient(x).at(0), 0) << "a gradient that nothing has written reads as zero";
  Tape tape;
  tape.backward(sum(scale(x, 7)));
  EXPECT_EQ(gradient(x).at(0), 7);
}

const void* given = nullptr;
const void* received = nullptr;

TEST(Tape, KeepsAGivenGradientWithoutACopy) {
  Tensor x = leaf({4}, {1, 2, 3, 4});
  Tape tape;
  Tensor y = empty_like(x), z = empty_like(x);
  record({.name = "receiver", .op_class = OpClass::activation, .inputs = {x}}, {&y},
         [](const Tensors&, const Tensors& dy, GradSink&) { received = dy[0].raw(); });
  record({.name = "giver", .op_class = OpClass::activation, .inputs = {y}}, {&z},
         [](const Tensors&, const Tensors&, GradSink& sink) {
           const Tensor dx = full({4}, DType::f32, 1);
           given = dx.raw();
           sink.give(0, dx);
         });
  tape.backward({z}, {full({4}, DType::f32, 1)});
  EXPECT_NE(given, nullptr);
  EXPECT_EQ(given, received);
}

TEST(Tape, NeverChangesAGradientThatSomebodyElseHolds) {
  Tensor x = leaf({2}, {1, 1}), w = leaf({2}, {1, 1});
  const Tensor dy = full({2}, DType::f32, 1);
  Tape tape;
  const Tensor a = scale(x, 2), b = scale(w, 3);
  const Tensor c = add(a, b);  // gives one tensor to a and to b
  const Tensor d = scale(a, 10);
  tape.backward({d, c, a}, {dy, dy, dy});
  EXPECT_EQ(list(gradient(x)), (Doubles{24, 24})) << "2 * (10 + 1 + 1)";
  EXPECT_EQ(list(gradient(w)), (Doubles{3, 3})) << "what a gathers must not leak into b";
  EXPECT_EQ(list(dy), (Doubles{1, 1})) << "nor into the caller's tensor";
}

TEST(Tape, GivesTheSameGradientToBothInputsWithoutMixingThem) {
  Tensor x = leaf({2}, {1, 1}), w = leaf({2}, {1, 1});
  Tape tape;
  const Tensor a = scale(x, 2), b = scale(w, 3);
  const Tensor early = scale(a, 100);  // its gradient is added to a's after add has given one
  tape.backward(sum(add(early, add(a, b))));
  EXPECT_EQ(list(gradient(w)), (Doubles{3, 3}));
  EXPECT_EQ(list(gradient(x)), (Doubles{202, 202}));
}

// (x, x) -> two outputs, of which backward may see either alone.
Tensors split(const Tensor& x) {
  Tensor low = empty_like(x), high = empty_like(x);
  Tensor index({1}, DType::i32);
  index.set(0, 3);
  for (int64_t i = 0; i < x.numel(); ++i) {
    low.set(i, x.at(i));
    high.set(i, 10 * x.at(i));
  }
  record({.name = "split", .op_class = OpClass::router, .inputs = {x}}, {&low, &high, &index},
         [](const Tensors&, const Tensors& dy, GradSink& sink) {
           EXPECT_FALSE(dy[2].defined()) << "an index gets no gradient";
           const auto [dx, accumulate] = sink.target(0);
           if (!accumulate) fill(dx, 0);
           for (int64_t i = 0; i < dx.numel(); ++i) {
             if (dy[0].defined()) dx.set(i, dx.at(i) + dy[0].at(i));
             if (dy[1].defined()) dx.set(i, dx.at(i) + 10 * dy[1].at(i));
           }
         });
  return {low, high, index};
}

TEST(Tape, GivesAnUndefinedGradientWhereNoneArrived) {
  for (const int output : {0, 1}) {
    Tensor x = leaf({2}, {1, 2});
    Tape tape;
    tape.backward(sum(split(x)[static_cast<size_t>(output)]));
    EXPECT_EQ(gradient(x).at(0), output == 0 ? 1 : 10);
  }
}

TEST(Tape, StartsFromSeveralOutputsAndLeavesOutUndefinedOnes) {
  Tensor x = leaf({2}, {1, 2});
  Tape tape;
  const Tensors out = split(x);
  tape.backward(out, {full({2}, DType::f32, 1), full({2}, DType::f32, 2), Tensor()});
  EXPECT_EQ(list(gradient(x)), (Doubles{21, 21}));
}

TEST(Tape, RecordsNothingWithoutLeavesAndNothingUnderNoGrad) {
  const Tensor plain = values({1}, {2});
  Tensor x = leaf({1}, {2});
  Tape tape;
  EXPECT_EQ(scale(plain, 2).variable(), nullptr);
  EXPECT_FALSE(recording({&plain}));
  EXPECT_TRUE(recording({&plain, &x}));
  {
    const NoGrad no_grad;
    EXPECT_EQ(Tape::current(), nullptr);
    EXPECT_FALSE(recording({&x}));
    EXPECT_EQ(square(x).variable(), nullptr);
  }
  EXPECT_EQ(Tape::current(), &tape);
  EXPECT_TRUE(tape.saved_bytes().empty());
}

TEST(Tape, MayBeNested) {
  Tensor x = leaf({1}, {3});
  Tape outer;
  const Tensor y = scale(x, 2);
  {
    Tensor z = leaf({1}, {5});
    Tape inner;
    EXPECT_EQ(Tape::current(), &inner);
    inner.backward(sum(square(z)));
    EXPECT_EQ(gradient(z).at(0), 10);
    EXPECT_THROW(
        {
          Tape other;
          scale(y, 2);
        },
        Error)
        << "a value of the outer tape has no place on another";
  }
  EXPECT_EQ(Tape::current(), &outer);
  outer.backward(sum(y));
  EXPECT_EQ(gradient(x).at(0), 2);
}

TEST(Tape, IsWalkedOnce) {
  Tensor x = leaf({1}, {3});
  Tape tape;
  const Tensor loss = sum(x);
  tape.backward(loss);
  EXPECT_THROW(tape.backward(loss), Error);
  EXPECT_THROW(scale(x, 2), Error) << "nothing is recorded after backward";
}

TEST(Tape, WantsAScalarThatWasRecorded) {
  Tensor x = leaf({2}, {1, 2});
  Tape tape;
  EXPECT_THROW(tape.backward(scale(x, 2)), Error);
  try {
    tape.backward(values({1}, {1}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "backward: the loss was not recorded; compute it from leaves while the tape is "
                 "alive");
  }
}

TEST(Tape, ReportsEachLeafOnceWhenItIsComplete) {
  Tensor first = leaf({1}, {1}), tied = leaf({1}, {1}), last = leaf({1}, {1});
  std::vector<const Variable*> order;
  for (int run = 0; run < 2; ++run) {
    for (const Tensor& t : {first, tied, last}) clear_gradient(t);
    std::vector<const Variable*> seen;
    Tape tape;
    const Tensor a = scale(first, 2), b = scale(tied, 3);
    Tensor y = add(a, b);
    y = add(y, scale(last, 4));
    y = add(y, scale(tied, 5));
    tape.backward(sum(y), [&](Variable& v) {
      seen.push_back(&v);
      if (&v == tied.variable().get()) {
        EXPECT_EQ(gradient(tied).at(0), 8);
      }
    });
    EXPECT_EQ(seen, (std::vector<const Variable*>{last.variable().get(), tied.variable().get(),
                                                  first.variable().get()}));
    if (run > 0) {
      EXPECT_EQ(seen, order);
    }
    order = seen;
  }
}

TEST(Tape, ReportsALeafThatNoGradientReachesAsZero) {
  Tensor x = leaf({1}, {1}), unused = leaf({1}, {1});
  fill(gradient(unused), 99);
  int reports = 0;
  Tape tape;
  scale(unused, 2);
  tape.backward(sum(x), [&](Variable& v) {
    ++reports;
    if (&v == unused.variable().get()) {
      EXPECT_EQ(v.grad.at(0), 0);
    }
  });
  EXPECT_EQ(reports, 2);
}

TEST(ForwardSink, WritesTheGradientsOfLeavesInTheForwardPass) {
  Tensor x = leaf({1}, {1});
  EXPECT_FALSE(forward_sink({x}).has_value()) << "no tape";
  Tape tape;
  const Tensor y = scale(x, 2);
  EXPECT_FALSE(forward_sink({values({1}, {1})}).has_value()) << "nothing wants a gradient";
  auto sink = forward_sink({x, y});
  ASSERT_TRUE(sink.has_value());
  EXPECT_TRUE(sink->wants(0));
  EXPECT_FALSE(sink->wants(1)) << "the gradient of a computed value is given in backward";
  sink->give(0, full({1}, DType::f32, 7));
  tape.backward(sum(y));
  EXPECT_EQ(gradient(x).at(0), 9);
}

}  // namespace
}  // namespace tephra
