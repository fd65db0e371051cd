// SPDX-License-Identifier: Apache-2.0
// Which new documents resemble one of an index.
#pragma once

#include <vector>

#include "tephra/data/corpus/rank_lists.h"
#include "tephra/data/dedup/band_exchange.h"
#include "tephra/data/dedup/dedup_index.h"
#include "tephra/data/dedup/signature_files.h"

namespace tephra {

struct IndexMatch {
  uint32_t document = 0;  // number in the corpus
  uint32_t segment = 0;
  uint32_t match = 0;  // number in the segment
  float similarity = 0;
};

struct IndexMatches {
  std::vector<IndexMatch> matches;  // at most one a document, in their order
  int64_t compared = 0;
  int64_t unchecked = 0;  // documents of which not all that share a band were looked at
};

struct MatchRules {
  bool verify = true;
  double similarity = 0.7;
  int64_t memory_bytes = int64_t{4} << 30;  // for the band keys of new documents
};

// Of several that a document resembles, the most similar one, the earliest of equals. Of a bloom
// index, the match names nothing and its similarity is 1.
IndexMatches find_index_matches(const DedupIndex& index, const SignatureFiles& signatures,
                                const MatchRules& rules);
// The same with all ranks: each looks up its range of the keys and compares the documents of its
// files.
IndexMatches find_index_matches(const DedupIndex& index, const SignatureFiles& signatures,
                                const MatchRules& rules, const BandExchange& exchange,
                                const RankLists& lists);

}  // namespace tephra
