// SPDX-License-Identifier: Apache-2.0
#include "tephra/infer/block_pool.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

using Blocks = std::vector<BlockPool::Block>;

std::vector<int32_t> ids(std::initializer_list<int32_t> list) { return list; }

TEST(BlockPool, GivesNeighboursWhileThereAreAny) {
  BlockPool pool(4, 2);
  const auto a = pool.take();
  const auto b = pool.take();
  const auto behind_a = pool.take(a);
  EXPECT_EQ(Blocks({*a, *b, *behind_a}), Blocks({0, 1, 2}));
  pool.release(*b);
  EXPECT_EQ(pool.take(a), b);
  EXPECT_EQ(pool.held(), 3);
  EXPECT_TRUE(pool.take());
  EXPECT_EQ(pool.take(), std::nullopt);
}

TEST(BlockPool, FindsWhatStartsTheSame) {
  BlockPool pool(4, 2);
  const auto a = pool.take(), b = pool.take();
  pool.remember(*a, std::nullopt, ids({1, 2}));
  pool.remember(*b, a, ids({3, 4}));
  EXPECT_EQ(pool.share(ids({1, 2, 3, 4, 5})), Blocks({*a, *b}));
  EXPECT_EQ(pool.share(ids({1, 2, 3})), Blocks({*a}));
  EXPECT_TRUE(pool.share(ids({1, 3, 3, 4})).empty());
  EXPECT_TRUE(pool.share(ids({3, 4})).empty()) << "the same tokens behind others are not the same";
  EXPECT_EQ(pool.look_up(ids({1, 2, 3, 4})).blocks, 2);
  EXPECT_EQ(pool.look_up(ids({1, 2, 3, 4})).idle, 0);
}

TEST(BlockPool, GivesUpTheEndsOfOldTextsFirst) {
  BlockPool pool(3, 1);
  const auto a = pool.take(), b = pool.take();
  pool.remember(*a, std::nullopt, ids({1}));
  pool.remember(*b, a, ids({2}));
  pool.release(*b);
  pool.release(*a);
  EXPECT_EQ(pool.available(), 3);
  EXPECT_EQ(pool.look_up(ids({1, 2})).idle, 2);
  pool.take();
  EXPECT_EQ(pool.look_up(ids({1, 2})).blocks, 2) << "there was an empty one";
  pool.take();
  EXPECT_EQ(pool.look_up(ids({1, 2})).blocks, 1);
  EXPECT_EQ(pool.share(ids({1, 2})), Blocks({*a}));
  EXPECT_EQ(pool.take(), std::nullopt);
  pool.release(*a);
  EXPECT_TRUE(pool.take());
  EXPECT_EQ(pool.remembered(), 0);
}

TEST(BlockPool, NeverFindsABlockWhoseBeginningIsGone) {
  BlockPool pool(2, 1);
  const auto a = pool.take(), b = pool.take();
  pool.remember(*a, std::nullopt, ids({1}));
  pool.remember(*b, a, ids({2}));
  pool.release(*a);  // the beginning first: it goes first
  const auto c = pool.take();
  EXPECT_EQ(c, a);
  pool.remember(*c, std::nullopt, ids({1}));
  EXPECT_EQ(pool.look_up(ids({1, 2})).blocks, 1) << "its state is that of another text";
}

}  // namespace
}  // namespace tephra
