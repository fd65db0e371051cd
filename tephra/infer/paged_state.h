// SPDX-License-Identifier: Apache-2.0
// What a model remembers of many sequences: keys and values in blocks that a sequence lists, and
// the state of fixed size (convolutions, delayed values) in a slot each. A block has room for a
// copy of the fixed state after its last token, so a sequence can start behind blocks that another
// filled.
#pragma once

#include <span>
#include <vector>

#include "tephra/models/model.h"

namespace tephra {

class PagedState {
 public:
  // The model must outlive it. `filler_tokens`: of the filler, at most.
  PagedState(Model& model, int64_t blocks, int64_t block_tokens, int64_t slots,
             int64_t filler_tokens = 64);

  // Memory of one block: keys, values and the copy of the fixed state.
  static int64_t block_bytes(Model& model, int64_t block_tokens);

  // One sequence's part of a pass.
  struct Part {
    int64_t slot;
    std::span<const int32_t> blocks;  // with room for all of its tokens, the new ones too
    int64_t past;                     // tokens it has
    std::span<const int32_t> tokens;  // new ones
  };

  // Runs the model over all parts at once, and saves the fixed state for each block that a part
  // that begins at or before its first row fills and goes beyond: final hidden states, part after
  // part. At least `least_rows` rows are computed, by a filler that is forgotten; what comes back
  // has its rows, too, at the end.
  Tensor forward(std::span<const Part> parts, int64_t least_rows);

  // Whether the model has kernels of its own for parts of one token each.
  bool takes_steps() const { return step_ != nullptr; }
  int64_t step_rows() const { return step_->most_rows(); }
  // Runs these: one token each, at most step_rows() of them. The results are of this call until the
  // next one.
  DecodeStep* decode(std::span<const Part> parts);
  void replay(const Tensor& experts) { step_->replay(experts); }  // see DecodeStep

  void clear(int64_t slot);                // the fixed state before the first token
  void save(int64_t slot, int32_t block);  // as the state after this block's last token
  void restore(int32_t block, int64_t slot);
  // Keys and values of a block's first tokens.
  void copy_tokens(int32_t from, int32_t to, int64_t count);

 private:
  struct Rows {
    Segments segments;
    Tensor ids_N, write_row_N;
    KeyRanges ranges;  // of a layer that sees all
  };

  Rows lay_out(std::span<const Part> parts) const;
  KeyRanges windowed(const Rows& rows, int64_t window) const;
  // Fixed state of the sequences in these slots.
  void gather(const Tensor& slot_N, Decoding& decoding) const;
  void scatter(const Tensor& slot_N, const Decoding& decoding) const;
  std::vector<int32_t> keep_at_block_ends(std::span<const Part> parts, Decoding& decoding) const;
  void save_kept(const std::vector<int32_t>& blocks, const Decoding& decoding) const;
  void make_step(int64_t slots, int64_t blocks);
  void tell_table(int64_t slot, std::span<const int32_t> blocks);

  Model& model_;
  StateSpec spec_;
  int64_t block_tokens_, filler_slot_;
  Device device_;
  std::vector<LayerState> live_;   // keys and values of all blocks; fixed state by slot
  std::vector<LayerState> saved_;  // fixed state by block
  std::vector<int32_t> filler_blocks_;
  std::vector<int32_t> filler_tokens_;
  std::unique_ptr<DecodeStep> step_;          // where the model has one
  std::vector<std::vector<int32_t>> tables_;  // by slot: what the device was told
  Tensor device_tables_;
};

}  // namespace tephra
