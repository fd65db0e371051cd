// SPDX-License-Identifier: Apache-2.0
// Attention of single queries, each with keys of its own: the steps of decoding. They are bound by
// memory, so the keys of a step are cut into parts that threads take one by one, and every key and
// value is read once, for all heads, where it lies.
#pragma once

#include <span>

#include "tephra/ops/attention.h"
#include "tephra/ops/attention_tiles.h"

namespace tephra::kernel {

// Rows `steps` of a, one query each. Parts are cut from a step's first key on and merged in order:
// the bits depend on the step alone.
void decode_attention(const Attention& a, std::span<const AttentionTile> steps);

}  // namespace tephra::kernel
