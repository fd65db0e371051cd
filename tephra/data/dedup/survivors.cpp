// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/survivors.h"

#include <algorithm>
#include <numeric>

namespace tephra {
namespace {

// Survivors that one member is compared with: beyond it a cluster is no cluster.
constexpr size_t kMaxSurvivors = 64;

// The best first.
std::vector<size_t> by_preference(std::span<const Member> members, const SurvivorRules& rules) {
  std::vector<size_t> order(members.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    const Member &a = members[x], &b = members[y];
    if (rules.rank[a.source] != rules.rank[b.source]) {
      return rules.rank[a.source] < rules.rank[b.source];
    }
    if (rules.keep == Keep::longest && a.bytes != b.bytes) return a.bytes > b.bytes;
    if (rules.keep == Keep::best && a.score != b.score) return a.score > b.score;
    return a.document < b.document;
  });
  return order;
}

}  // namespace

ClusterResult resolve_cluster(std::span<const Member> members, const SurvivorRules& rules,
                              const std::function<double(size_t a, size_t b)>& similarity) {
  ClusterResult result;
  std::vector<size_t> survivors;
  for (const size_t at : by_preference(members, rules)) {
    const Member& member = members[at];
    bool removed = false;
    size_t looked_at = 0;
    const bool may_go = !rules.untouched[member.source];
    for (size_t s = 0; may_go && s < survivors.size() && !removed; ++s) {
      const Member& other = members[survivors[s]];
      if (rules.across_sources && rules.rank[other.source] == rules.rank[member.source]) continue;
      if (looked_at++ == kMaxSurvivors) {
        ++result.unchecked;
        break;
      }
      double similar = 1;
      if (rules.verify) {
        similar = similarity(at, survivors[s]);
        ++result.compared;
        result.refused += similar < rules.similarity;
      }
      if (similar < rules.similarity) continue;
      result.removals.push_back(
          {member.document, other.document, static_cast<float>(similar), members[0].document});
      removed = true;
    }
    if (!removed) survivors.push_back(at);
  }
  std::sort(result.removals.begin(), result.removals.end(),
            [](const Removal& a, const Removal& b) { return a.document < b.document; });
  return result;
}

}  // namespace tephra
