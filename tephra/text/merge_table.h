// SPDX-License-Identifier: Apache-2.0
// Merges: from a pair of ids to its rank, from the rank to the id of both together; and the two
// mergers, one for short pieces and one for pieces of any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tephra {

struct MergeScratch {
  std::vector<uint32_t> ranks, before, after;
  std::vector<uint64_t> heap;
};

class MergeTable {
 public:
  static constexpr uint32_t kNoRank = UINT32_MAX;

  void reserve(size_t merges);
  // Ranks count up from 0. A pair that comes again takes its later rank.
  void add(int32_t left, int32_t right, int32_t merged);
  size_t size() const { return merged_.size(); }

  uint32_t rank(int32_t left, int32_t right) const {
    if (slots_.empty()) return kNoRank;
    const uint64_t key = key_of(left, right);
    for (size_t slot = slot_of(key);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return slots_[slot].rank;
      if (slots_[slot].key == kEmpty) return kNoRank;
    }
  }
  int32_t merged(uint32_t rank) const { return merged_[rank]; }

  // Merges until nothing is left to merge; `symbols` shrinks in place.
  void merge(std::vector<int32_t>& symbols, MergeScratch& scratch) const;

 private:
  struct Slot {
    uint64_t key;
    uint32_t rank;
  };
  static constexpr uint64_t kEmpty = UINT64_MAX;  // ids are not negative

  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const { return (key * 0x9e3779b97f4a7c15u) >> shift_; }

  void merge_short(std::vector<int32_t>& symbols) const;
  void merge_long(std::vector<int32_t>& symbols, MergeScratch& scratch) const;
  void join(std::vector<int32_t>& symbols, uint32_t at, uint32_t rank, MergeScratch& s) const;

  std::vector<Slot> slots_;
  std::vector<int32_t> merged_;
  int shift_ = 64;
};

}  // namespace tephra
