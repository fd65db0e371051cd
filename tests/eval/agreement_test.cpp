// SPDX-License-Identifier: Apache-2.0
#include "tephra/eval/agreement.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tephra/eval/perplexity.h"
#include "tephra/models/checkpoint.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(i * 11 % vocabulary));
  return ids;
}

class AgreementOfTwo : public testing::Test {
 protected:
  AgreementOfTwo() {
    WriteOptions options;
    const Json config = preset_config("tiny");
    write_random_checkpoint(config, "tiny", scratch_ / "a", 1, RandomInit::lively, options);
    write_random_checkpoint(config, "tiny", scratch_ / "b", 2, RandomInit::lively, options);
    a_ = load_model(scratch_ / "a", {});
    b_ = load_model(scratch_ / "b", {});
  }
  std::vector<ComparedText> texts(int64_t window) const {
    return cut_text(some_ids(200, a_->tokens().usable), window);
  }

  Scratch scratch_;
  std::unique_ptr<Model> a_, b_;
};

TEST_F(AgreementOfTwo, AModelAgreesWithItself) {
  const Agreement same = compare_models(*a_, *a_, texts(64));
  EXPECT_EQ(same.tokens, 199);
  EXPECT_EQ(same.same_choice, 199);
  EXPECT_LT(same.max_kl, 1e-12);
  EXPECT_DOUBLE_EQ(same.model_nats, same.reference_nats);
}

TEST_F(AgreementOfTwo, DifferentModelsDoNot) {
  const Agreement other = compare_models(*a_, *b_, texts(64));
  EXPECT_LT(other.share_same_choice(), 0.9);
  EXPECT_GT(other.mean_kl, 1e-3);
  EXPECT_LE(other.median_kl, other.p99_kl);
  EXPECT_LE(other.p99_kl, other.max_kl);
  // What one is to the other's text, each way round.
  const Agreement back = compare_models(*b_, *a_, texts(64));
  EXPECT_DOUBLE_EQ(other.model_nats, back.reference_nats);
}

TEST_F(AgreementOfTwo, OnlyWhatIsToBeForetoldCounts) {
  std::vector<ComparedText> given = {{some_ids(50, 100), 40}, {some_ids(9, 100), 8}};
  EXPECT_EQ(compare_models(*a_, *b_, given).tokens, 10 + 1);
}

// std::max(0, NaN) is 0: a broken model agreed with every other.
TEST_F(AgreementOfTwo, ABrokenModelAgreesWithNone) {
  b_->parameters().at(0).set(0, std::nan(""));
  const std::string end =
      ": the logits are not finite; `tephra checkpoint verify` finds weights that are not";
  const CompareOptions broken_first{.model = "b", .reference = "a"}, first{"a", "b"};
  const Error error = error_of([&] { compare_models(*b_, *a_, texts(64), broken_first); });
  EXPECT_EQ(error.fault(), Fault::data);
  EXPECT_EQ(error.what(), "b" + end);
  EXPECT_EQ(error_of([&] { compare_models(*a_, *b_, texts(64), first); }).what(), "b" + end);
  // As a text's perplexity tells it.
  const std::vector<int32_t> ids = some_ids(20, 100);
  EXPECT_EQ(error_of([&] { token_perplexity(*b_, ids, {.model = "b"}); }).what(), "b" + end);
}

TEST_F(AgreementOfTwo, RefusesForeignTokens) {
  const std::vector<ComparedText> foreign = {{{1, 1 << 30, 2}}};
  EXPECT_EQ(error_of([&] { compare_models(*a_, *b_, foreign); }).fault(), Fault::usage);
  EXPECT_EQ(error_of([&] { compare_models(*a_, *b_, {}); }).fault(), Fault::usage);
}

}  // namespace
}  // namespace tephra
