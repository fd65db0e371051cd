// SPDX-License-Identifier: Apache-2.0
#include "tephra/core/segments.h"

#include <gtest/gtest.h>

#include <limits>

namespace tephra {
namespace {

using Ints = std::vector<int32_t>;

Ints values(const Tensor& t) {
  const int32_t* p = t.data<int32_t>();
  return {p, p + t.numel()};
}

Segments packed(const std::vector<int64_t>& lengths) { return Segments::packed(lengths); }

TEST(Segments, PackDocumentsOneAfterAnother) {
  const Segments s = packed({3, 1, 2});
  EXPECT_EQ(s.tokens(), 6);
  EXPECT_EQ(s.count, 3);
  EXPECT_EQ(values(s.start_N), (Ints{0, 0, 0, 3, 4, 4}));
  EXPECT_EQ(values(s.end_N), (Ints{3, 3, 3, 4, 6, 6}));
  EXPECT_EQ(values(s.position_N), (Ints{0, 1, 2, 0, 0, 1}));
  EXPECT_EQ(values(s.sequence_N), (Ints{0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(values(s.bounds), (Ints{0, 3, 4, 6}));
}

TEST(Segments, OfLengthZeroKeepTheirIndex) {
  const Segments s = packed({0, 2, 0, 1, 0});
  EXPECT_EQ(s.count, 5);
  EXPECT_EQ(values(s.sequence_N), (Ints{1, 1, 3}));
  EXPECT_EQ(values(s.bounds), (Ints{0, 0, 2, 2, 3, 3}));
}

TEST(Segments, MayBeNone) {
  const Segments s = packed({});
  EXPECT_EQ(s.tokens(), 0);
  EXPECT_EQ(values(s.bounds), (Ints{0}));
  EXPECT_EQ(causal_ranges(s).first_N.numel(), 0);
}

TEST(Segments, ContinueFromTheStateTheyHave) {
  const std::vector<int64_t> lengths = {2, 1, 3}, past = {5, 0, 256};
  const Segments s = Segments::continued(lengths, past);
  EXPECT_EQ(values(s.position_N), (Ints{5, 6, 0, 256, 257, 258}));
  EXPECT_EQ(values(s.start_N), (Ints{0, 0, 2, 3, 3, 3}))
      << "rows count what is here, not the state";
}

TEST(Segments, OfABatchAreEquallyLong) {
  const Segments s = Segments::batch(2, 3);
  EXPECT_EQ(values(s.bounds), (Ints{0, 3, 6}));
  EXPECT_EQ(values(s.position_N), (Ints{0, 1, 2, 0, 1, 2}));
}

TEST(Segments, RefuseImpossibleLengths) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  EXPECT_THROW(packed({2, -1}), Error);
  EXPECT_THROW(packed({kMax}), Error);
  EXPECT_THROW(packed({2, std::numeric_limits<int64_t>::max()}), Error);
  EXPECT_THROW(Segments::batch(-1, 4), Error);
  const std::vector<int64_t> one = {1}, two = {1, 1}, negative = {-1}, far = {kMax};
  EXPECT_THROW(Segments::continued(one, two), Error);
  EXPECT_THROW(Segments::continued(one, negative), Error);
  EXPECT_THROW(Segments::continued(one, far), Error);
}

TEST(CausalRanges, SeeTheOwnDocumentUpToItself) {
  const KeyRanges r = causal_ranges(packed({3, 2}));
  EXPECT_EQ(values(r.first_N), (Ints{0, 0, 0, 3, 3}));
  EXPECT_EQ(values(r.last_N), (Ints{1, 2, 3, 4, 5}));
}

TEST(CausalRanges, OfAWindowCountTheCurrentToken) {
  const KeyRanges r = causal_ranges(packed({4, 3}), 2);
  EXPECT_EQ(values(r.first_N), (Ints{0, 0, 1, 2, 4, 4, 5}));
  EXPECT_EQ(values(r.last_N), (Ints{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(values(causal_ranges(packed({3}), 1).first_N), (Ints{0, 1, 2}));
}

TEST(CausalRanges, OfAWindowLongerThanTheDocumentAreTheWholeOfIt) {
  const Segments s = packed({3, 2});
  EXPECT_EQ(values(causal_ranges(s, 100).first_N), values(causal_ranges(s).first_N));
}

}  // namespace
}  // namespace tephra
