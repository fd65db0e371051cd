// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/band_join.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "tephra/base/parallel.h"

namespace tephra {
namespace {

constexpr size_t kBucketRecords = 2048;  // on average; their table fits the first-level cache
constexpr int kMaxBits = 11;             // of a pass: a line of cache for each bucket
constexpr int64_t kJoinGrain = 4;        // buckets

struct Edge {
  uint32_t first, later;
};

// From bits [shift, shift + bits) of the key to buckets; returns where each begins.
std::vector<size_t> spread(std::span<const BandRecord> from, std::span<BandRecord> to, int shift,
                           int bits) {
  const auto bucket = [&](const BandRecord& record) {
    return bits == 0 ? 0 : static_cast<size_t>(record.key >> shift & ((uint64_t{1} << bits) - 1));
  };
  std::vector<size_t> begin((size_t{1} << bits) + 1);
  for (const BandRecord& record : from) ++begin[bucket(record) + 1];
  for (size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  std::vector<size_t> next(begin.begin(), begin.end() - 1);
  for (const BandRecord& record : from) to[next[bucket(record)]++] = record;
  return begin;
}

// Equal keys within one bucket: each record against the first with its key.
class Matcher {
 public:
  void match(std::span<const BandRecord> bucket, std::vector<Edge>& edges) {
    const size_t size = std::bit_ceil(2 * bucket.size() + 1);
    slots_.assign(size, kEmpty);
    for (uint32_t r = 0; r < bucket.size(); ++r) {
      for (size_t i = bucket[r].key & (size - 1);; i = (i + 1) & (size - 1)) {
        if (slots_[i] == kEmpty) {
          slots_[i] = r;
          break;
        }
        if (bucket[slots_[i]].key != bucket[r].key) continue;
        edges.push_back({bucket[slots_[i]].document, bucket[r].document});
        break;
      }
    }
  }

 private:
  static constexpr uint32_t kEmpty = UINT32_MAX;
  std::vector<uint32_t> slots_;
};

void match_buckets(std::span<const BandRecord> records, std::span<const size_t> begin,
                   FunctionRef<void(uint32_t, uint32_t)> found) {
  const auto buckets = static_cast<int64_t>(begin.size()) - 1;
  std::vector<std::vector<Edge>> edges(static_cast<size_t>(ceil_div(buckets, kJoinGrain)));
  parallel_for(buckets, kJoinGrain, [&](int64_t first, int64_t last) {
    Matcher matcher;
    for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(last); ++i) {
      matcher.match(records.subspan(begin[i], begin[i + 1] - begin[i]),
                    edges[static_cast<size_t>(first / kJoinGrain)]);
    }
  });
  for (const std::vector<Edge>& part : edges) {
    for (const Edge& edge : part) found(edge.first, edge.later);
  }
}

}  // namespace

void BandJoin::each_match(std::vector<BandRecord>& records,
                          FunctionRef<void(uint32_t first, uint32_t later)> match) {
  const int bits = static_cast<int>(std::bit_width(records.size() / kBucketRecords));
  resize_exactly(spread_, records.size());
  const int first = std::min(bits, kMaxBits), second = std::min(bits - first, kMaxBits);
  const std::vector<size_t> begin = spread(records, spread_, 64 - first, first);
  if (second == 0) {
    match_buckets(spread_, begin, match);
    return;
  }
  for (size_t i = 0; i + 1 < begin.size(); ++i) {
    const std::span<const BandRecord> part(spread_.data() + begin[i], begin[i + 1] - begin[i]);
    const std::vector<size_t> inner = spread(part, records, 64 - first - second, second);
    match_buckets(std::span<const BandRecord>(records.data(), part.size()), inner, match);
  }
}

}  // namespace tephra
