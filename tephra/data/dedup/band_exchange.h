// SPDX-License-Identifier: Apache-2.0
// The band records of a corpus on their way to who joins them: each rank spreads those of its files
// over all ranks by range of key, and reads what all have spread for it. One process is the only
// rank; it does so when its memory holds too little.
#pragma once

#include <optional>
#include <vector>

#include "tephra/data/corpus/rank_lists.h"
#include "tephra/data/dedup/band_files.h"
#include "tephra/data/dedup/signature_files.h"

namespace tephra {

class BandExchange {
 public:
  // Alone, through a folder. Of `gone` (empty: none) no records are kept.
  BandExchange(const SignatureFiles& signatures, const Path& folder, int64_t memory_bytes,
               const std::vector<bool>& gone = {});
  // With all ranks, which come back together.
  BandExchange(const SignatureFiles& signatures, const RankLists& lists, int64_t memory_bytes);
  ~BandExchange();  // takes away what was spread for this rank
  BandExchange(const BandExchange&) = delete;
  BandExchange& operator=(const BandExchange&) = delete;

  size_t parts() const { return plan_.parts(); }
  size_t band_of(size_t part) const { return part / plan_.ranges; }
  int64_t records() const { return share_->records(); }
  // Replaces `to` by the records of a part of this rank's range, which fit into memory twice.
  void read(size_t part, std::vector<BandRecord>& to) const { share_->read(part, to); }

 private:
  void spread(const SignatureFiles& signatures, const Shard& shard, int64_t memory_bytes,
              const std::vector<bool>& gone) const;

  BandPlan plan_;
  size_t rank_ = 0;
  std::optional<BandShare> share_;
};

}  // namespace tephra
