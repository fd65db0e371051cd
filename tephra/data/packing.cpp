// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/packing.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tephra/base/error.h"

namespace tephra {

std::vector<std::vector<int64_t>> pack_best_fit(std::span<const int64_t> lengths, int64_t context) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int64_t i) { return lengths[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::vector<std::vector<int64_t>> packs;
  std::set<std::pair<int64_t, size_t>> rooms;  // room left, pack
  for (const int64_t i : order) {
    TEPHRA_ASSERT(length(i) >= 1 && length(i) <= context, "an example fits an empty context");
    auto best = rooms.lower_bound({length(i), 0});
    std::pair<int64_t, size_t> room{context, packs.size()};
    if (best == rooms.end()) {
      packs.emplace_back();
    } else {
      room = *best;
      rooms.erase(best);
    }
    packs[room.second].push_back(i);
    rooms.insert({room.first - length(i), room.second});
  }
  return packs;
}

}  // namespace tephra
