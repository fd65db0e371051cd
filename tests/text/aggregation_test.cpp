// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/aggregation.h"

#include <gtest/gtest.h>

#include "tephra/text/byte_tokenizer.h"

namespace tephra {
namespace {

TEST(Aggregation, PutsTheProblemFirstAndNumbersTheAttempts) {
  EXPECT_EQ(aggregation_text("What is 1 + 1?", std::vector<std::string>{"Answer: 2\n", " 3"}),
            "What is 1 + 1?\n"
            "Ends of 2 attempts at this, of which some may be wrong or cut off:\n"
            "[1]\nAnswer: 2\n[2]\n3\n"
            "Weigh them and write one correct solution.");
}

TEST(Aggregation, TakesTailsOfWholeCharactersWithoutSpecialTokens) {
  const Tokenizer bytes = Tokenizer::parse(byte_tokenizer_json(), "bytes");
  EXPECT_EQ(tail_text(bytes, "abcdef", 3), "def");
  EXPECT_EQ(tail_text(bytes, "abcdef", 9), "abcdef");
  EXPECT_EQ(tail_text(bytes, "abcdef", 0), "");
  EXPECT_EQ(tail_text(bytes, "x\xc3\xa9z", 2), "z");  // the cut is inside of a character
  EXPECT_EQ(tail_text(bytes, "x\xc3\xa9z", 3), "\xc3\xa9z");
  const std::vector<int32_t> ids = bytes.encode("a<think>b</think>c");
  EXPECT_EQ(tail_text(bytes, ids, 10), "abc");
}

TEST(Aggregation, TailsOfBrokenBytesHaveNoMoreTokensThanTheyAreAllowed) {
  const Tokenizer bytes = Tokenizer::parse(byte_tokenizer_json(), "bytes");
  std::vector<int32_t> ids = bytes.encode("before");
  const int32_t broken = bytes.encode("\xc3\xa9").back();
  for (int i = 0; i < 8; ++i) ids.push_back(broken);
  for (const int32_t id : bytes.encode("end")) ids.push_back(id);
  for (int64_t tokens = 0; tokens <= 20; ++tokens) {
    const std::string tail = tail_text(bytes, ids, tokens);
    EXPECT_LE(static_cast<int64_t>(bytes.encode(tail).size()), tokens);
    EXPECT_TRUE(tokens < 3 || tail.ends_with("end")) << tail;
  }
}

}  // namespace
}  // namespace tephra
