// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/clusters.h"

#include <algorithm>

#include "tephra/base/parallel.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"

namespace tephra {
namespace {

constexpr int64_t kMostReadings = 3;  // more cost more than writing what is read once
constexpr const char* kForest = "forest";

// Some bands at a time, each time reading all files.
void join_bands(const SignatureFiles& signatures, size_t at_once, const std::vector<bool>& gone,
                UnionFind& sets) {
  Progress progress("clusters", static_cast<int64_t>(signatures.bands()), "bands");
  BandJoin join;
  for (size_t band = 0; band < signatures.bands(); band += at_once) {
    std::vector<std::vector<BandRecord>> records(std::min(at_once, signatures.bands() - band));
    for (auto& list : records) list.reserve(signatures.documents());
    signatures.each_document([&](uint32_t document, const uint64_t* keys) {
      if (!gone.empty() && gone[document]) return;
      for (size_t b = 0; b < records.size(); ++b) records[b].push_back({keys[band + b], document});
    });
    for (std::vector<BandRecord>& list : records) {
      join.join(list, sets);
      release(list);
      progress.add(1);
      stop_if_interrupted();
    }
  }
}

void join_parts(const BandExchange& exchange, const std::vector<bool>& gone, UnionFind& sets) {
  Progress progress("clusters", static_cast<int64_t>(exchange.parts()), "parts");
  BandJoin join;
  std::vector<BandRecord> records;
  for (size_t part = 0; part < exchange.parts(); ++part) {
    exchange.read(part, records);
    if (!gone.empty()) {
      std::erase_if(records, [&](const BandRecord& record) { return gone[record.document]; });
    }
    join.join(records, sets);
    progress.add(1);
    stop_if_interrupted();
  }
}

struct Branch {
  uint32_t document, root;
};

// What joins the same documents again: nothing of those that are alone.
std::vector<Branch> forest_of(UnionFind& sets) {
  std::vector<Branch> forest;
  for (uint32_t d = 0; d < sets.size(); ++d) {
    if (const uint32_t root = sets.root(d); root != d) forest.push_back({d, root});
  }
  return forest;
}

}  // namespace

UnionFind find_clusters(const SignatureFiles& signatures, const Path& folder, int64_t memory_bytes,
                        const std::vector<bool>& gone) {
  UnionFind sets(signatures.documents());
  const auto total = std::max<int64_t>(1, static_cast<int64_t>(signatures.documents()));
  const auto bands = static_cast<int64_t>(signatures.bands());
  // Beside the bands that are kept, the join needs a second buffer of one.
  const int64_t at_once = std::min(bands, 2 * (memory_bytes / (total * kJoinBytes)) - 1);
  if (at_once > 0 && ceil_div(bands, at_once) <= kMostReadings) {
    join_bands(signatures, static_cast<size_t>(at_once), gone, sets);
  } else {
    join_parts(BandExchange(signatures, folder, memory_bytes, gone), {}, sets);
  }
  return sets;
}

UnionFind find_clusters(const BandExchange& exchange, const RankLists& lists, size_t documents,
                        const std::vector<bool>& gone) {
  UnionFind sets(documents);
  join_parts(exchange, gone, sets);
  lists.give(kForest, forest_of(sets));
  lists.ranks().meet("its clusters");
  for (int64_t rank = 0; rank < lists.shard().count; ++rank) {
    if (rank == lists.shard().index) continue;
    for (const Branch& branch : lists.take<Branch>(kForest, rank)) {
      sets.join(branch.document, branch.root);
    }
  }
  return sets;
}

}  // namespace tephra
