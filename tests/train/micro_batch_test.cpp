// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/micro_batch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tephra/core/rng.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

std::unique_ptr<Model> tiny(DType dtype) {
  return load_model(Path(TEPHRA_GOLDEN_DIR) / "train-muon",
                    {.dtype = dtype, .with_gradients = true});
}

Tensor random_ids(const Shape& shape, const Model& model, uint32_t step) {
  const Tensor ids(shape, DType::i64);
  for (int64_t i = 0; i < ids.numel(); ++i) {
    const double u = uniform({5, stream_of("ids"), step}, static_cast<uint64_t>(i));
    ids.set(i, 3 + std::floor(u * double(model.tokens().usable - 3)));
  }
  return ids;
}

TEST(MicroBatch, HasTheSuccessorOfEachTokenAsTarget) {
  const auto model = tiny(DType::f32);
  const MicroBatch b =
      next_token_batch(from_values<int64_t>({2, 3}, {5, 6, 7, 8, 9, 10}), model->tokens(), "ids");
  const int32_t want[] = {6, 7, -1, 9, 10, -1};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(b.targets_N.at(i), want[i]) << i;
  EXPECT_EQ(count_targets(b), 4);
  EXPECT_EQ(b.segments.count, 2);
}

// Parts with different numbers of targets count by their targets: the sum is the whole batch's.
TEST(MicroBatch, PartsAddUpToTheWhole) {
  const auto model = tiny(DType::f64);
  const Tensor ids = random_ids({6, 16}, *model, 0);
  MicroBatch whole = next_token_batch(ids, model->tokens(), "ids");
  for (const int64_t i : {0, 1, 2, 3, 4, 40}) whole.targets_N.set(i, -1);
  const auto rows = [&](int64_t begin, int64_t end) {
    MicroBatch part = next_token_batch(ids.slice_rows(begin, end), model->tokens(), "ids");
    copy_into(
        part.targets_N,
        whole.targets_N.view({96, 1}).slice_rows(begin * 16, end * 16).view({(end - begin) * 16}));
    return part;
  };
  const Accumulated once = accumulate_gradients(*model, {&whole, 1});
  const Tensor want = clone(model->parameters().flat_gradients());
  const std::vector<MicroBatch> parts{rows(0, 1), rows(1, 4), rows(4, 6)};
  const Accumulated summed = accumulate_gradients(*model, parts);
  EXPECT_EQ(once.targets, 6 * 15 - 6);
  EXPECT_EQ(summed.targets, once.targets);
  EXPECT_NEAR(summed.loss, once.loss, 1e-13);
  EXPECT_EQ(summed.expert_counts, once.expert_counts);
  const Tensor got = model->parameters().flat_gradients();
  for (int64_t i = 0; i < got.numel(); ++i) ASSERT_NEAR(got.at(i), want.at(i), 1e-13) << i;
}

TEST(MicroBatch, CountsWhatEachExpertGot) {
  const auto model = tiny(DType::f32);
  const MicroBatch batch = next_token_batch(random_ids({4, 32}, *model, 1), model->tokens(), "ids");
  const Accumulated sum = accumulate_gradients(*model, {&batch, 1});
  ASSERT_EQ(sum.expert_counts.size(), 2u) << "one router in each layer";
  for (const auto& counts : sum.expert_counts) {
    ASSERT_EQ(counts.size(), 5u) << "four experts, then skip";
    int64_t total = 0;
    for (const int64_t c : counts) total += c;
    EXPECT_EQ(total, 128);
  }
}

TEST(MicroBatch, IsTheSameWithRecomputation) {
  const auto model = tiny(DType::f32);
  const MicroBatch batch = next_token_batch(random_ids({4, 32}, *model, 2), model->tokens(), "ids");
  accumulate_gradients(*model, {&batch, 1});
  const Tensor want = clone(model->parameters().flat_gradients());
  const Accumulated again =
      accumulate_gradients(*model, {&batch, 1}, {.recompute = Recompute::everything()});
  EXPECT_TRUE(same_bits(model->parameters().flat_gradients(), want));
  EXPECT_EQ(again.expert_counts[0].size(), 5u);
}

TEST(MicroBatch, TakesTheMeanOverAllRanks) {
  const auto model = tiny(DType::f64);
  const MicroBatch batch = next_token_batch(random_ids({2, 8}, *model, 3), model->tokens(), "ids");
  const double alone = accumulate_gradients(*model, {&batch, 1}).loss;
  EXPECT_NEAR(accumulate_gradients(*model, {&batch, 1}, {.targets = 28}).loss, alone / 2, 1e-13);
}

TEST(MicroBatch, NeedsATarget) {
  const auto model = tiny(DType::f32);
  MicroBatch batch = next_token_batch(random_ids({1, 4}, *model, 4), model->tokens(), "ids");
  fill(batch.targets_N, -1);
  const std::string message = message_of([&] { accumulate_gradients(*model, {&batch, 1}); });
  EXPECT_TRUE(message.starts_with("training step: expected at least one target, got none; "))
      << message;
}

}  // namespace
}  // namespace tephra
