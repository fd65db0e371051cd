// SPDX-License-Identifier: Apache-2.0
// Joins documents that share the key of a band: records are spread by their key into buckets that
// stay in cache, and each bucket is matched on its own.
#pragma once

#include <cstdint>
#include <vector>

#include "tephra/base/function_ref.h"
#include "tephra/data/dedup/union_find.h"

namespace tephra {

#pragma pack(push, 4)
struct BandRecord {
  uint64_t key;
  uint32_t document;
};
#pragma pack(pop)
static_assert(sizeof(BandRecord) == 12);

// Gives the memory back, which `records = {}` would keep.
inline void release(std::vector<BandRecord>& records) { std::vector<BandRecord>().swap(records); }

// Makes it that large, with memory for no more and without what it held: growing as vectors do
// takes three times as much for a moment.
inline void resize_exactly(std::vector<BandRecord>& records, size_t size) {
  if (records.capacity() < size) {
    release(records);
    records.reserve(size);
  }
  records.resize(size);
}

// Two buffers of this many records are in memory.
class BandJoin {
 public:
  // Calls `match` for each record whose key an earlier one has: with the document of the first such
  // record, and its own. On this thread, in an order that depends on the records alone. Changes the
  // order of the records.
  void each_match(std::vector<BandRecord>& records,
                  FunctionRef<void(uint32_t first, uint32_t later)> match);

  // Joins in `sets` all documents with equal keys.
  void join(std::vector<BandRecord>& records, UnionFind& sets) {
    each_match(records, [&](uint32_t first, uint32_t later) { sets.join(first, later); });
  }

 private:
  std::vector<BandRecord> spread_;
};

}  // namespace tephra
