// SPDX-License-Identifier: Apache-2.0
// ZAYA1 against the reference implementation, case by case: logits, loss, every gradient, the
// stream between layers, routing, greedy decoding, packed and padded batches.
#include <gtest/gtest.h>

#include "tephra/autograd/tape.h"
#include "tephra/base/parallel.h"
#include "tephra/infer/verify.h"

namespace tephra {
namespace {

const Path kGolden = TEPHRA_GOLDEN_DIR;

class Golden : public testing::TestWithParam<const char*> {
 protected:
  Path folder() const { return kGolden / GetParam(); }
  SafetensorsFile reference() const {
    return SafetensorsFile::open(folder() / "golden.safetensors");
  }
  void expect_pass(const VerifyReport& report) const {
    for (const Check& c : report.checks) {
      EXPECT_TRUE(c.pass) << c.name << ": max abs " << c.max_abs << ", max rel " << c.max_rel
                          << ", bound " << c.bound << " on " << to_text(c.metric) << ", worst "
                          << c.worst;
    }
  }
};

TEST_P(Golden, MatchesInFloat32) {
  const auto model = load_model(folder(), {.dtype = DType::f32, .with_gradients = true});
  const VerifyReport report = verify_golden(*model, reference());
  expect_pass(report);
  EXPECT_EQ(report.checks.size(), 11u);
  EXPECT_TRUE(report.ignored.empty()) << report.ignored[0];
}

TEST_P(Golden, MatchesInFloat64) {
  const auto model = load_model(folder(), {.dtype = DType::f64, .with_gradients = true});
  expect_pass(verify_golden(*model, reference()));
}

TEST_P(Golden, IsNoFurtherOffInBf16ThanTheReferenceItself) {
  const auto model = load_model(folder(), {.dtype = DType::bf16});
  expect_pass(verify_golden(*model, reference()));
}

TEST_P(Golden, DecodesWithACacheAsWithout) {
  const auto model = load_model(folder(), {});
  expect_pass(verify_itself(*model, 61, 3));
}

INSTANTIATE_TEST_SUITE_P(Zaya1, Golden,
                         testing::Values("zaya-tiny", "zaya-tiny-sliding", "zaya-tiny-wide",
                                         "zaya-tiny-bias-bf16", "zaya-tiny-legacy"));

struct Step {
  Tensor loss;
  Tensor gradients;
};

Step train_step(const Recompute& recompute = {}) {
  const auto model = load_model(kGolden / "zaya-tiny", {.with_gradients = true});
  const SafetensorsFile golden = SafetensorsFile::open(kGolden / "zaya-tiny/golden.safetensors");
  const Tensor ids = to_dtype(golden.tensor("input_ids"), DType::i32).view({80});
  Tape tape(recompute);
  const Tensor loss = model->loss(model->forward(ids, Segments::batch(2, 40)), ids, 1.0 / 80);
  tape.backward(loss);
  model->parameters().complete_gradients();
  return {loss, clone(model->parameters().flat_gradients())};
}

TEST(Zaya1Step, GivesTheSameBitsOnAnyNumberOfThreads) {
  set_num_threads(1);
  const Step one = train_step();
  for (const int threads : {2, 3, 8, 16}) {
    set_num_threads(threads);
    const Step many = train_step();
    EXPECT_TRUE(same_bits(one.loss, many.loss)) << threads;
    EXPECT_TRUE(same_bits(one.gradients, many.gradients)) << threads;
  }
  set_num_threads(2);
}

TEST(Zaya1Step, GivesTheSameBitsWithAnyRecomputation) {
  const Step kept = train_step();
  for (const Recompute& recompute :
       {Recompute{OpClass::norm}, Recompute{OpClass::activation},
        Recompute{OpClass::convolution, OpClass::qk}, Recompute{OpClass::experts, OpClass::linear},
        Recompute{OpClass::dispatch, OpClass::router}, Recompute::everything()}) {
    const Step again = train_step(recompute);
    EXPECT_TRUE(same_bits(kept.loss, again.loss));
    EXPECT_TRUE(same_bits(kept.gradients, again.gradients));
  }
}

}  // namespace
}  // namespace tephra
