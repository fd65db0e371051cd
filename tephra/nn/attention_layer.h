// SPDX-License-Identifier: Apache-2.0
// What the kinds of attention have in common: a model's layer holds one of them.
#pragma once

#include "tephra/base/function_ref.h"
#include "tephra/core/segments.h"
#include "tephra/nn/state.h"

namespace tephra {

// What a layer is told about the tokens it runs on.
struct LayerContext {
  const Segments& segments;
  const KeyRanges& ranges;  // rows of this call's keys, or of the state's when there is one
  LayerState* state = nullptr;
  const Tensor* write_row_N = nullptr;  // where new keys and values go in the state
  const Tensor* kept_rows = nullptr;    // see Decoding
  // Has idle threads fetch what comes after the layer; called before its last product, if given.
  const FunctionRef<void()>* announce_next = nullptr;
};

class AttentionLayer {
 public:
  virtual ~AttentionLayer() = default;

  // h_NH: the normed stream.
  virtual Tensor forward(const Tensor& h_NH, const LayerContext& context) const = 0;

  // The base of the rotary embedding from the next call on.
  virtual void set_rope_theta(double theta) = 0;
};

struct KeysValues {
  Tensor k, v;
};

// The keys and values that context.ranges speaks of: this call's own or, when decoding, those of
// the state after this call's went in.
KeysValues remembered(const Tensor& k, const Tensor& v, const LayerContext& context);

// The last `rows` rows of x up to each of kept_rows: [kept, rows, width].
Tensor rows_up_to(const Tensor& x, const Tensor& kept_rows, int64_t rows);

}  // namespace tephra
