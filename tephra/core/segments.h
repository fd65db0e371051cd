// SPDX-License-Identifier: Apache-2.0
// One token axis. Everything below the command line runs on a flat axis of N tokens; Segments says
// which document each token belongs to and where in it. A packed batch, a padded batch, a prefill
// chunk, a batch of single decode steps and a context-parallel chunk are all Segments.
#pragma once

#include <span>

#include "tephra/core/tensor.h"

namespace tephra {

// Rows of one segment are consecutive. All tensors are i32. They are made on
// the host; ops bring what they read to their own device, models do it once for all layers.
struct Segments {
  Tensor start_N;     // row where this token's segment starts
  Tensor end_N;       // row after its segment's last
  Tensor position_N;  // position in the document: counts from the state, if there is one
  Tensor sequence_N;  // index of the segment, and of its left state
  Tensor bounds;      // [count + 1] first row of each segment, then N
  Tensor real_N;      // 0 for padding; undefined when there is none
  int64_t count = 0;  // segments

  int64_t tokens() const { return start_N.numel(); }

  // Documents of these lengths, one after another, from position 0.
  static Segments packed(std::span<const int64_t> lengths);
  // The same, each continuing a document of which `past` tokens are already in its state.
  static Segments continued(std::span<const int64_t> lengths, std::span<const int64_t> past);
  static Segments batch(int64_t sequences, int64_t tokens_each);
  // The same with padding at the left: mask [sequences, tokens_each] is 0 there. A model takes
  // padded tokens for silence: they are seen by no other token, but are not the same as none at all
  // where a projection has a bias.
  static Segments padded(const Tensor& mask);
};

// Key rows [first, last) that each query row may see. Causality, documents, sliding windows and
// caches are all such ranges.
struct KeyRanges {
  Tensor first_N;  // i32
  Tensor last_N;   // i32, exclusive
  // Where keys lie in pages: row r of the ranges is row r % page_rows of page pages[r / page_rows]
  // of the keys. Undefined: the ranges number the rows of the keys themselves.
  Tensor pages = {};  // i32
  int64_t page_rows = 0;
};

// The same on another device; what is there already is not copied.
Segments to_device(const Segments& segments, Device device);
KeyRanges to_device(const KeyRanges& ranges, Device device);

// Each token sees its own segment up to itself; with window > 0 only the last `window` keys, the
// current one included.
KeyRanges causal_ranges(const Segments& segments, int64_t window = 0);

}  // namespace tephra
