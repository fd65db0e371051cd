// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr size_t kShort = 48;  // symbols; above, looking for the lowest rank costs more than a heap
constexpr int32_t kGone = -1;
constexpr uint32_t kEnd = UINT32_MAX;

}  // namespace

void MergeTable::reserve(size_t merges) {
  const size_t slots = std::bit_ceil(2 * merges + 2);
  slots_.assign(slots, {kEmpty, kNoRank});
  shift_ = 64 - std::countr_zero(slots);
  merged_.reserve(merges);
}

void MergeTable::add(int32_t left, int32_t right, int32_t merged) {
  TEPHRA_ASSERT(2 * merged_.size() < slots_.size(), "reserve says how many merges there are");
  const uint64_t key = key_of(left, right);
  size_t slot = slot_of(key);
  while (slots_[slot].key != kEmpty && slots_[slot].key != key) {
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = {key, static_cast<uint32_t>(merged_.size())};
  merged_.push_back(merged);
}

void MergeTable::merge(std::vector<int32_t>& symbols, MergeScratch& scratch) const {
  if (symbols.size() < 2) return;
  if (symbols.size() <= kShort) return merge_short(symbols);
  merge_long(symbols, scratch);
}

void MergeTable::merge_short(std::vector<int32_t>& symbols) const {
  uint32_t ranks[kShort];  // of each symbol with the next one
  size_t n = symbols.size();
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoRank) break;
    symbols[best] = merged(ranks[best]);
    --n;
    for (size_t i = best + 1; i < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i] = ranks[i + 1];
    }
    if (best + 1 < n) ranks[best] = rank(symbols[best], symbols[best + 1]);
    if (best > 0) ranks[best - 1] = rank(symbols[best - 1], symbols[best]);
  }
  symbols.resize(n);
}

// A heap of (rank, place); an entry counts while its place still has that rank.
void MergeTable::merge_long(std::vector<int32_t>& symbols, MergeScratch& s) const {
  const size_t n = symbols.size();
  require(n < kEnd, "tokenizer: expected a piece of fewer than {} symbols, got {}", kEnd, n);
  s.ranks.assign(n, kNoRank);
  s.before.resize(n);
  s.after.resize(n);
  s.heap.clear();
  for (uint32_t i = 0; i < n; ++i) {
    s.before[i] = i == 0 ? kEnd : i - 1;
    s.after[i] = i + 1 == n ? kEnd : i + 1;
    if (i + 1 < n) s.ranks[i] = rank(symbols[i], symbols[i + 1]);
    if (s.ranks[i] != kNoRank) s.heap.push_back(static_cast<uint64_t>(s.ranks[i]) << 32 | i);
  }
  std::make_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  while (!s.heap.empty()) {
    const uint64_t top = s.heap.front();
    std::pop_heap(s.heap.begin(), s.heap.end(), std::greater<>());
    s.heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    const auto lowest = static_cast<uint32_t>(top >> 32);
    if (symbols[at] != kGone && s.ranks[at] == lowest) join(symbols, at, lowest, s);
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), kGone), symbols.end());
}

void MergeTable::join(std::vector<int32_t>& symbols, uint32_t at, uint32_t lowest,
                      MergeScratch& s) const {
  const auto update = [&](uint32_t i) {
    const uint32_t next = s.after[i];
    s.ranks[i] = next == kEnd ? kNoRank : rank(symbols[i], symbols[next]);
    if (s.ranks[i] == kNoRank) return;
    s.heap.push_back(static_cast<uint64_t>(s.ranks[i]) << 32 | i);
    std::push_heap(s.heap.begin(), s.heap.end(), std::greater<>());
  };
  const uint32_t eaten = s.after[at];
  symbols[at] = merged(lowest);
  symbols[eaten] = kGone;
  s.after[at] = s.after[eaten];
  if (s.after[at] != kEnd) s.before[s.after[at]] = at;
  update(at);
  if (s.before[at] != kEnd) update(s.before[at]);
}

}  // namespace tephra
