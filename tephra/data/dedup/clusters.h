// SPDX-License-Identifier: Apache-2.0
// Documents that share the key of a band, joined: by one process, or by ranks of which each joins a
// range of the keys. The sets are the same.
#pragma once

#include <vector>

#include "tephra/data/corpus/rank_lists.h"
#include "tephra/data/dedup/band_exchange.h"
#include "tephra/data/dedup/signature_files.h"
#include "tephra/data/dedup/union_find.h"

namespace tephra {

// At most about `memory_bytes` are used beside the sets' four bytes a document: all bands or some
// at a time, or through `folder`, part by part. Documents of `gone` (empty: none) stay alone.
UnionFind find_clusters(const SignatureFiles& signatures, const Path& folder, int64_t memory_bytes,
                        const std::vector<bool>& gone = {});

// With all ranks, which come back together with the same sets.
UnionFind find_clusters(const BandExchange& exchange, const RankLists& lists, size_t documents,
                        const std::vector<bool>& gone = {});

}  // namespace tephra
