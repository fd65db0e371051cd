// SPDX-License-Identifier: Apache-2.0
// What embedding promises beside its spec: messages, and the row of the padding token.
#include "tephra/ops/embedding.h"

#include <gtest/gtest.h>

#include "tephra/autograd/tape.h"
#include "tests/support/message_of.h"

namespace tephra {
namespace {

Tensor ids(const std::vector<int32_t>& values) {
  return from_values({static_cast<int64_t>(values.size())}, values);
}

TEST(Embedding, NamesTheIdThatIsOutsideTheTable) {
  const Tensor table = zeros({5, 2}, DType::f32);
  EXPECT_EQ(message_of([&] {
              embedding(ids({1, 4, 5}), table);
            }),
            "embedding: id 5 at row 2 is outside the vocabulary of 5 tokens");
  EXPECT_EQ(message_of([&] { embedding(ids({-1}), table); }),
            "embedding: id -1 at row 0 is outside the vocabulary of 5 tokens");
  EXPECT_EQ(message_of([&] { embedding(zeros({3}, DType::i64), table); }),
            "embedding: ids must be [tokens] of i32, got [3] of i64");
  EXPECT_EQ(message_of([&] { embedding(ids({1}), zeros({5}, DType::f32)); }),
            "embedding: table must be [vocabulary, width], got [5]");
}

TEST(Embedding, ThePaddingRowGetsNoGradientButKeepsWhatItHas) {
  Tensor table = full({4, 3}, DType::f32, 1);
  make_leaf(table, DType::f32);
  for (const double before : {0.0, 1.0}) {  // overwritten first, added to the second time
    Tape tape;
    const Tensor y = embedding(ids({2, 0, 2, 1, 2}), table, /*pad_id=*/2);
    EXPECT_EQ(y.at(0), 1);
    tape.backward({y}, {full(y.shape(), DType::f32, 1)});
    const Tensor d = gradient(table);
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_EQ(d.at(c), before + 1);
      EXPECT_EQ(d.at(3 + c), before + 1);
      EXPECT_EQ(d.at(6 + c), 0);
      EXPECT_EQ(d.at(9 + c), 0);
    }
  }
}

}  // namespace
}  // namespace tephra
