// SPDX-License-Identifier: Apache-2.0
// How attention cuts its work: by the key ranges alone, so that neither the thread count nor the
// order in which threads come changes a sum.
#pragma once

#include <vector>

#include "tephra/core/segments.h"

namespace tephra::kernel {

// Query rows [row, row_end) against key rows [key, key_end). Not every pair need be visible.
struct AttentionTile {
  int64_t row, row_end;
  int64_t key, key_end;
};

// Consecutive queries, at most `rows` together, with the keys that any of them sees. A query joins
// its neighbours when their keys overlap: documents and decoded sequences stay apart, since
// together they would be mostly masked.
std::vector<AttentionTile> query_blocks(const KeyRanges& ranges, int64_t rows);

// Whether block b is a single query that shares its keys with no neighbour.
bool is_decode_step(const std::vector<AttentionTile>& blocks, size_t b);

// All pairs, in tiles of at most `rows` x `keys`. Tiles of one wave share neither queries nor keys,
// so they may run side by side and add to the gradients of both; waves run one after another.
std::vector<std::vector<AttentionTile>> tile_waves(const KeyRanges& ranges, int64_t rows,
                                                   int64_t keys);

}  // namespace tephra::kernel
