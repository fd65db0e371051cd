// SPDX-License-Identifier: Apache-2.0
// ZAYA1 against the reference implementation, case by case: logits, loss, every gradient, the
// stream between layers, routing, greedy decoding, packed and padded batches.
#include <gtest/gtest.h>

#include <functional>

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

// A golden file with some of the tensors of zaya-tiny's, as `change` leaves them.
class WrongGolden : public testing::Test {
 protected:
  using Entries = std::vector<std::pair<std::string, Tensor>>;

  std::string error_of(const std::function<void(Entries&)>& change) const {
    const SafetensorsFile golden = SafetensorsFile::open(kGolden / "zaya-tiny/golden.safetensors");
    Entries entries;
    for (const char* name :
         {"input_ids", "logits", "greedy", "greedy_prompt_len", "padded_mask", "padded_logits"}) {
      entries.emplace_back(name, clone(golden.tensor(name)));
    }
    change(entries);
    const Path path = Path(testing::TempDir()) / "wrong_golden.safetensors";
    write_safetensors(path, entries);
    const auto model = load_model(kGolden / "zaya-tiny", {});
    try {
      const VerifyReport report = verify_golden(*model, SafetensorsFile::open(path));
      return report.pass() ? "passed" : "failed";
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::data);
      return e.what();
    }
  }
};

TEST_F(WrongGolden, PassesAsItIs) {
  EXPECT_EQ(error_of([](Entries&) {}), "passed");
}

TEST_F(WrongGolden, FailsOnAnotherValue) {
  EXPECT_EQ(error_of([](Entries& e) { e[1].second.set(7, e[1].second.at(7) + 1e-3); }), "failed");
  EXPECT_EQ(error_of([](Entries& e) { e[2].second.set(30, 3 + int(e[2].second.at(30)) % 90); }),
            "failed");
}

TEST_F(WrongGolden, HasNothingToCheck) {
  EXPECT_NE(error_of([](Entries& e) { e.resize(1); }).find("holds nothing that can be checked"),
            std::string::npos);
}

TEST_F(WrongGolden, HasAnotherShapeOfTheSameSize) {
  EXPECT_NE(error_of([](Entries& e) {
              e[1].second = e[1].second.view({40, 2, 96});
            }).find("logits must be [2, 40, width]"),
            std::string::npos);
}

TEST_F(WrongGolden, HasAnIdOutsideTheVocabulary) {
  EXPECT_NE(error_of([](Entries& e) { e[2].second.set(0, 500); }).find("greedy[0]"),
            std::string::npos);
}

TEST_F(WrongGolden, LacksTheMaskOfItsPaddedLogits) {
  EXPECT_NE(error_of([](Entries& e) {
              e.erase(e.begin() + 4);
            }).find("expected a tensor named 'padded_mask'"),
            std::string::npos);
}

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
