// SPDX-License-Identifier: Apache-2.0
// Clusters against brute force, and what stays of them.
#include "tephra/data/dedup/survivors.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "tephra/data/dedup/band_join.h"

namespace tephra {
namespace {

TEST(BandJoin, JoinsEqualKeysAsBruteForceDoes) {
  std::mt19937_64 random(11);
  for (const size_t count : {size_t{1}, size_t{50}, size_t{20000}}) {
    std::vector<BandRecord> records;
    std::vector<uint64_t> pool;
    for (size_t i = 0; i < std::max<size_t>(1, count / 3); ++i) pool.push_back(random());
    for (uint32_t d = 0; d < count; ++d) records.push_back({pool[random() % pool.size()], d});
    std::map<uint64_t, uint32_t> first;
    UnionFind want(count), got(count);
    for (const BandRecord& record : records) {
      want.join(record.document,
                first.emplace(uint64_t{record.key}, uint32_t{record.document}).first->second);
    }
    BandJoin().join(records, got);
    for (uint32_t d = 0; d < count; ++d) ASSERT_EQ(got.root(d), want.root(d));
  }
}

TEST(Survivors, FollowRankLengthScoreAndNumber) {
  const std::vector<Member> members = {{0, 0, 10, 1}, {1, 1, 20, 5}, {2, 1, 30, 2}};
  const auto same = [](size_t, size_t) { return 1.0; };
  const auto kept = [&](Keep keep, std::vector<uint32_t> rank, bool across) {
    SurvivorRules rules;
    rules.keep = keep;
    rules.rank = std::move(rank);
    rules.untouched = {false, false};
    rules.across_sources = across;
    std::set<uint32_t> left = {0, 1, 2};
    for (const Removal& removal : resolve_cluster(members, rules, same).removals) {
      left.erase(removal.document);
    }
    return left;
  };
  using Set = std::set<uint32_t>;
  EXPECT_EQ(kept(Keep::first, {1, 1}, false), Set{0});
  EXPECT_EQ(kept(Keep::longest, {1, 1}, false), Set{2});
  EXPECT_EQ(kept(Keep::best, {1, 1}, false), Set{1});
  EXPECT_EQ(kept(Keep::first, {2, 1}, false), Set{1});
  EXPECT_EQ(kept(Keep::first, {2, 1}, true), (Set{1, 2}));
}

TEST(Survivors, RemoveOnlyWhatResemblesOneThatStays) {
  // A chain: 0 is like 1, 1 like 2, but 0 is not like 2.
  const std::vector<Member> chain = {{0, 0, 1, 0}, {1, 0, 1, 0}, {2, 0, 1, 0}};
  SurvivorRules rules;
  rules.rank = {1};
  rules.untouched = {false};
  const ClusterResult result = resolve_cluster(
      chain, rules, [](size_t a, size_t b) { return (a > b ? a - b : b - a) == 1 ? 0.9 : 0.1; });
  ASSERT_EQ(result.removals.size(), 1u);
  EXPECT_EQ(result.removals[0], (Removal{1, 0, 0.9f, 0}));
  EXPECT_EQ(result.compared, 2);
  EXPECT_EQ(result.refused, 1);
}

TEST(Survivors, CompareSetsExactlyOrByTheirSmallest) {
  const std::vector<uint64_t> a = {1, 2, 3, 4}, b = {3, 4, 5, 6};
  EXPECT_DOUBLE_EQ(set_similarity(a, b, 10), 2.0 / 6);
  EXPECT_DOUBLE_EQ(set_similarity(a, b, 4), 2.0 / 4);  // of 1 2 3 4, two are in both
  EXPECT_DOUBLE_EQ(set_similarity({}, {}, 4), 1);
}

}  // namespace
}  // namespace tephra
