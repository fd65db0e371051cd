// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/paged_state.h"

#include <gtest/gtest.h>

#include "tephra/ops/copy_rows.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

constexpr int64_t kPage = 16;

std::vector<int32_t> paged_tokens(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(3 + i * 7 % 90));
  return tokens;
}

// A part that fills several blocks leaves the same behind each of them as parts of one block.
TEST(PagedState, KeepsTheFixedStateAtTheEndOfEveryBlockOfAPart) {
  const auto model = load_model(Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny", {});
  const std::vector<int32_t> tokens = paged_tokens(56), blocks{4, 1, 2, 0};
  PagedState at_once(*model, 6, kPage, 2, 16), by_block(*model, 6, kPage, 2, 16);
  const PagedState::Part all{0, blocks, 0, std::span(tokens).first(56)};
  const Tensor whole = at_once.forward({&all, 1}, 16);
  for (int64_t at = 0; at < 48; at += kPage) {
    const PagedState::Part part{0, blocks, at, std::span(tokens).subspan(size_t(at), kPage)};
    EXPECT_TRUE(same_bits(by_block.forward({&part, 1}, 16), whole.slice_rows(at, at + kPage)));
    by_block.save(0, blocks[static_cast<size_t>(at / kPage)]);
  }
  for (int64_t block = 0; block < 3; ++block) {
    std::vector<int32_t> own(blocks.begin(), blocks.begin() + block + 1);
    own.push_back(5);
    const PagedState::Part next{1, own, (block + 1) * kPage, std::span(tokens).first(kPage)};
    std::vector<Tensor> said;
    for (PagedState* state : {&at_once, &by_block}) {
      state->clear(1);
      state->restore(blocks[static_cast<size_t>(block)], 1);
      said.push_back(state->forward({&next, 1}, 16));
    }
    EXPECT_TRUE(same_bits(said[0], said[1])) << "behind block " << block;
  }
}

TEST(PagedState, HasNoStepsOnTheCpu) {
  const auto model = load_model(Path(TEPHRA_GOLDEN_DIR) / "zaya-tiny", {.dtype = DType::bf16});
  EXPECT_FALSE(PagedState(*model, 1, kPage, 1).takes_steps());
}

TEST(TakeRows, TakesRowsInAnyOrderAndOften) {
  const Tensor from = from_values<float>({3, 2}, {0, 1, 10, 11, 20, 21});
  const Tensor to({4, 2}, DType::f32);
  take_rows(to, from, from_values<int32_t>({4}, {2, 0, 0, 1}));
  EXPECT_TRUE(same_bits(to, from_values<float>({4, 2}, {20, 21, 0, 1, 0, 1, 10, 11})));
  const std::string message = message_of([&] {
    take_rows(to, from, from_values<int32_t>({3}, {0, 1, 2}));
  });
  EXPECT_NE(message.find("4 rows need as many"), std::string::npos) << message;
}

}  // namespace
}  // namespace tephra
