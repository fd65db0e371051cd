// SPDX-License-Identifier: Apache-2.0
// Which documents of a cluster stay. A document goes only if it truly resembles one that stays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tephra {

enum class Keep { first, longest, best };  // of equal rank; then the smallest number

struct Member {
  uint32_t document = 0;  // number in the corpus
  uint32_t source = 0;
  uint32_t bytes = 0;
  float score = 0;
};

struct SurvivorRules {
  Keep keep = Keep::first;
  std::vector<uint32_t> rank;   // of each source, 0 the best
  std::vector<bool> untouched;  // sources of which nothing is removed
  bool across_sources = false;  // only documents of a worse source than the best one present go
  bool verify = true;
  double similarity = 0.7;  // at least, when verifying
};

struct Removal {
  uint32_t document = 0;
  uint32_t survivor = 0;
  float similarity = 0;
  uint32_t cluster = 0;  // its smallest document
  bool operator==(const Removal&) const = default;
};

struct ClusterResult {
  std::vector<Removal> removals;
  int64_t compared = 0;
  int64_t refused = 0;    // comparisons below the similarity
  int64_t unchecked = 0;  // members kept because too many unlike ones are in the cluster
};

// `similarity(a, b)` of members a and b; asked only when verifying. Members are in the order of
// their documents. Those that resemble no survivor become survivors themselves and are compared
// with in turn, up to a limit.
ClusterResult resolve_cluster(std::span<const Member> members, const SurvivorRules& rules,
                              const std::function<double(size_t a, size_t b)>& similarity);

// Jaccard similarity of two sorted sets of hashes of at most `limit` smallest ones: exact when
// both are below the limit, else the bottom-k estimate.
template <class T>
double set_similarity(std::span<const T> a, std::span<const T> b, size_t limit) {
  const bool exact = a.size() < limit && b.size() < limit;
  const size_t most = exact ? a.size() + b.size() : limit;
  size_t i = 0, j = 0, both = 0, seen = 0;
  while (seen < most && (i < a.size() || j < b.size())) {
    ++seen;
    if (j == b.size() || (i < a.size() && a[i] < b[j])) {
      ++i;
    } else if (i == a.size() || b[j] < a[i]) {
      ++j;
    } else {
      ++both;
      ++i;
      ++j;
    }
  }
  return seen == 0 ? 1 : static_cast<double>(both) / static_cast<double>(seen);
}

inline double set_similarity(std::span<const uint64_t> a, std::span<const uint64_t> b,
                             size_t limit) {
  return set_similarity<uint64_t>(a, b, limit);
}

}  // namespace tephra
