// SPDX-License-Identifier: Apache-2.0
// Every op, every case of its spec, every check. A failure names the op and the case.
#include "tests/ops/op_suite.h"

namespace tephra {
namespace {

using namespace op_suite;  // NOLINT(google-build-using-namespace): the vocabulary of this file

class OpSuite : public testing::TestWithParam<Named> {
 protected:
  void SetUp() override { poison_new_memory(true); }
  void TearDown() override {
    set_num_threads(2);
    poison_new_memory(false);
  }
  const OpCase& test() const { return GetParam().test; }
};

TEST_P(OpSuite, MatchesItsNaiveLoopInEveryDtype) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const Tensors inputs = make_inputs(test().inputs, dtype, 1);
    const Tensors got = test().run(inputs);
    const Tensors want = test().naive(widened(inputs));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      expect_close(got[i], want[i], tolerance_of(dtype) * test().looseness,
                   format("{} output {}", dtype, i));
    }
  }
}

// The log of an empty sum is -inf whatever the inputs: not counted. Asked for a thousand times a
// case, so it reads whole rows.
double weighted_sum(const Tensor& y, const Tensor& dy) {
  double sum = 0;
  for (int64_t r = 0; r < y.rows(); ++r) {
    const double *value = y.row<double>(r), *weight = dy.row<double>(r);
    for (int64_t c = 0; c < y.cols(); ++c) {
      if (value[c] != -INFINITY) sum += value[c] * weight[c];
    }
  }
  return sum;
}

// d/dx of sum(dy * y) by central differences, on a sample of each input's elements.
TEST_P(OpSuite, HasTheGradientThatDifferencesGive) {
  const Tensors inputs = make_inputs(test().inputs, DType::f64, 2);
  const Result result = run_with_gradients(test(), inputs);
  const Tensors dy = output_gradients(result.outputs, test().scalar_loss);
  const auto objective = [&] {
    const NoGrad no_grad;
    const Tensors out = test().run(inputs);
    double sum = 0;
    for (size_t k = 0; k < out.size(); ++k) {
      if (is_float(out[k])) sum += weighted_sum(out[k], dy[k]);
    }
    return sum;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!result.gradients[k].defined()) continue;
    const int64_t n = inputs[k].numel();
    const double scale = std::max(largest(result.gradients[k]), 1e-3);
    for (int64_t s = 0; s < std::min<int64_t>(n, 24); ++s) {
      const int64_t i = n <= 24 ? s : static_cast<int64_t>(philox({3, 0, 0}, s)[0]) % n;
      const double x = inputs[k].at(i);
      const double h = 1e-5 * std::max(std::abs(x), 0.1 * test().inputs[k].scale);
      inputs[k].set(i, x + h);
      const double up = objective();
      inputs[k].set(i, x - h);
      const double down = objective();
      inputs[k].set(i, x);
      EXPECT_NEAR((up - down) / (2 * h), result.gradients[k].at(i), 2e-5 * scale)
          << "input " << k << " element " << i;
    }
  }
}

TEST_P(OpSuite, HasTheSameGradientInEveryDtype) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors inputs = make_inputs(test().inputs, dtype, 3);
    const Result got = run_with_gradients(test(), inputs);
    const Result want = run_with_gradients(test(), widened(inputs));
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!got.gradients[i].defined()) continue;
      expect_close(got.gradients[i], want.gradients[i], 4 * tolerance_of(dtype) * test().looseness,
                   format("{} gradient of input {}", dtype, i));
    }
  }
}

TEST_P(OpSuite, GivesTheSameBitsOnAnyNumberOfThreads) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors inputs = make_inputs(test().inputs, dtype, 4);
    set_num_threads(1);
    const Result one = run_with_gradients(test(), inputs);
    for (const int threads : {2, 3, 8, 16}) {
      set_num_threads(threads);
      const Result many = run_with_gradients(test(), inputs);
      for (size_t i = 0; i < one.outputs.size(); ++i) {
        if (!one.outputs[i].defined()) continue;
        EXPECT_TRUE(same_bits(one.outputs[i], many.outputs[i]))
            << "output " << i << " with " << threads << " threads in " << to_text(dtype);
      }
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (!one.gradients[i].defined()) continue;
        EXPECT_TRUE(same_bits(one.gradients[i], many.gradients[i]))
            << "gradient " << i << " with " << threads << " threads in " << to_text(dtype);
      }
    }
  }
}

TEST_P(OpSuite, AddsToAGradientThatIsAlreadyThere) {
  const Tensors inputs = make_inputs(test().inputs, DType::f32, 5);
  const Result once = run_with_gradients(test(), inputs);
  const Result twice = run_with_gradients(test(), inputs, /*clear=*/false);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!once.gradients[i].defined()) continue;
    Tensor doubled = clone(once.gradients[i]);
    add_into(doubled, once.gradients[i]);
    expect_close(twice.gradients[i], doubled, 1e-5, format("gradient of input {}", i));
  }
}

TEST_P(OpSuite, GivesTheSameBitsWhenItsOutputsAreRecomputed) {
  if (test().scalar_loss) return;  // nothing consumes a loss
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensors inputs = make_inputs(test().inputs, dtype, 6);
    OpCase squared = test();
    squared.run = [&](const Tensors& in) {
      Tensors out = test().run(in);
      for (Tensor& y : out) {
        if (is_float(y)) y = half_square(y);
      }
      return out;
    };
    const Result kept = run_with_gradients(squared, inputs);
    const Result again = run_with_gradients(squared, inputs, true, Recompute::everything());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!kept.gradients[i].defined()) continue;
      EXPECT_TRUE(same_bits(kept.gradients[i], again.gradients[i])) << "gradient " << i;
    }
  }
}

// Gradients are linear in those of the outputs, so the parts must add up to the whole.
TEST_P(OpSuite, TakesTheGradientOfEachOutputAlone) {
  const Tensors inputs = make_inputs(test().inputs, DType::f64, 9);
  const Result whole = run_with_gradients(test(), inputs);
  if (whole.outputs.size() < 2) return;
  const Tensors dy = output_gradients(whole.outputs, test().scalar_loss);
  Tensors sums(inputs.size());
  for (size_t k = 0; k < dy.size(); ++k) {
    if (!dy[k].defined()) continue;
    for (const Tensor& t : inputs) {
      if (t.defined() && t.variable()) clear_gradient(t);
    }
    Tape tape;
    const Tensors outputs = test().run(inputs);
    Tensors alone(dy.size());
    alone[k] = clone(dy[k]);
    tape.backward(outputs, alone);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!whole.gradients[i].defined()) continue;
      if (!sums[i].defined()) sums[i] = zeros(inputs[i].shape(), DType::f64);
      add_into(sums[i], gradient(inputs[i]));
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!sums[i].defined()) continue;
    expect_close(sums[i], whole.gradients[i], 1e-10 * test().looseness,
                 format("gradient of input {}", i));
  }
}

TEST_P(OpSuite, TakesBlocksOfColumns) {
  const Tensors dense = make_inputs(test().inputs, DType::f32, 10);
  const Tensors strided = as_blocks_of_columns(test(), dense);
  const Result want = run_with_gradients(test(), dense);
  const Result got = run_with_gradients(test(), strided);
  for (size_t i = 0; i < want.outputs.size(); ++i) {
    if (!want.outputs[i].defined()) continue;
    expect_close(got.outputs[i], want.outputs[i], 1e-6, format("output {}", i));
  }
  for (size_t i = 0; i < dense.size(); ++i) {
    if (!want.gradients[i].defined()) continue;
    expect_close(got.gradients[i], want.gradients[i], 1e-5, format("gradient of input {}", i));
  }
}

TEST_P(OpSuite, SkipsTheGradientsNobodyWants) {
  for (size_t only = 0; only < test().inputs.size(); ++only) {
    std::vector<InputSpec> specs = test().inputs;
    if (!specs[only].gradient) continue;
    for (size_t i = 0; i < specs.size(); ++i) specs[i].gradient = i == only;
    const Tensors all = make_inputs(test().inputs, DType::f32, 8);
    const Tensors one = make_inputs(specs, DType::f32, 8);
    const Result want = run_with_gradients(test(), all);
    const Result got = run_with_gradients(test(), one);
    EXPECT_TRUE(same_bits(got.gradients[only], want.gradients[only])) << "input " << only;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpSuite, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Named>& param) {
                           return param.param.op + "_" + std::to_string(param.index);
                         });

}  // namespace
}  // namespace tephra
