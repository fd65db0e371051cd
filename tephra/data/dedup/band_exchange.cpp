// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/band_exchange.h"

#include <algorithm>

#include "tephra/base/log.h"

namespace tephra {
namespace {

constexpr int64_t kLeastMemory = 1 << 10;

// So many ranges for each rank that a band's records in one of them can be joined.
BandPlan plan_of(const SignatureFiles& signatures, const Path& folder, std::string run,
                 size_t ranks, int64_t memory_bytes) {
  const size_t bytes = signatures.documents() / ranks * static_cast<size_t>(kJoinBytes);
  return {.folder = folder,
          .run = std::move(run),
          .ranks = ranks,
          .ranges = bytes / static_cast<size_t>(std::max(memory_bytes, kLeastMemory)) + 1,
          .bands = signatures.bands()};
}

}  // namespace

BandExchange::BandExchange(const SignatureFiles& signatures, const Path& folder,
                           int64_t memory_bytes, const std::vector<bool>& gone)
    : plan_(plan_of(signatures, folder, "", 1, memory_bytes)) {
  spread(signatures, {}, memory_bytes, gone);
  share_.emplace(plan_, rank_);
}

BandExchange::BandExchange(const SignatureFiles& signatures, const RankLists& lists,
                           int64_t memory_bytes)
    : plan_(plan_of(signatures, lists.folder(), lists.ranks().run(),
                    static_cast<size_t>(lists.shard().count), memory_bytes)),
      rank_(static_cast<size_t>(lists.shard().index)) {
  spread(signatures, lists.shard(), memory_bytes, {});
  lists.ranks().meet("its band records");
  share_.emplace(plan_, rank_);
  log_info("rank {} of {} joins {} of {} band records", rank_, plan_.ranks, records(),
           signatures.documents() * plan_.bands);
}

void BandExchange::spread(const SignatureFiles& signatures, const Shard& shard,
                          int64_t memory_bytes, const std::vector<bool>& gone) const {
  BandSpread spread(plan_, rank_, memory_bytes / 4 * 3);  // the rest is for what is read
  signatures.each_document(
      [&](uint32_t document, const uint64_t* keys) {
        if (!gone.empty() && gone[document]) return;
        for (size_t b = 0; b < plan_.bands; ++b) spread.add(b, {keys[b], document});
      },
      shard);
  spread.finish();
}

BandExchange::~BandExchange() {
  share_.reset();
  for (size_t from = 0; from < plan_.ranks; ++from) {
    std::error_code ignored;
    std::filesystem::remove(plan_.path(from, rank_), ignored);
  }
}

}  // namespace tephra
