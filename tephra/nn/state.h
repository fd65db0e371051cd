// SPDX-License-Identifier: Apache-2.0
// What a model remembers between calls when it decodes. A model declares it; infer owns it.
#pragma once

#include <string>
#include <vector>

#include "tephra/core/segments.h"

namespace tephra {

// The declaration, one entry per layer.
struct LayerStateSpec {
  int64_t kv_width = 0;         // elements of a key row, and of a value row, per token (paged)
  bool values_in_keys = false;  // a value is part of its key row: no value rows are kept
  int64_t window = 0;           // keys a query sees, itself included; 0: all
  int64_t conv_rows = 0;        // fixed: inputs of the convolutions still needed ...
  int64_t conv_width = 0;       // ... and their width
  int64_t value_width = 0;      // fixed: the delayed half of the last value
};

struct StateSpec {
  std::vector<LayerStateSpec> layers;
  // Fixed state can be restored only where it was copied; a cache keeps a copy every so many
  // tokens.
  int64_t snapshot_interval = 256;
};

// One layer's state for a batch of `count` sequences. Key and value rows of all sequences share one
// tensor; the ranges in Decoding say which rows belong to whom.
struct LayerState {
  Tensor k;      // [rows, kv_width]
  Tensor v;      // [rows, kv_width], undefined when values are in the keys
  Tensor conv;   // [count, conv_rows, conv_width]
  Tensor value;  // [count, 1, value_width]
  // What the fixed state was after the rows that Decoding::kept_rows names: [kept, ...] as above.
  Tensor conv_kept = {}, value_kept = {};
};

// Given to a model's forward pass when it decodes: where to put the new keys and values, and which
// keys each token sees. The model replaces conv and value by the right-hand state.
struct Decoding {
  std::vector<LayerState> layers;
  Tensor write_row_N;             // i32: row of each token in k and v
  std::vector<KeyRanges> ranges;  // by layer, into k and v
  // i32: rows within their segments, as many as the state has from the segment's first on, after
  // which the fixed state is wanted, too. Undefined: none.
  Tensor kept_rows = {};
};

}  // namespace tephra
