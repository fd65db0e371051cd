// SPDX-License-Identifier: Apache-2.0
// Runs a model token by token for a batch of sequences. It owns what the model remembers: keys and
// values in one block per sequence, and the fixed state of the convolutions and value shifts.
#pragma once

#include <span>
#include <vector>

#include "tephra/models/model.h"

namespace tephra {

class Decoder {
 public:
  // Room for `capacity` tokens in each of `sequences`. The model must outlive the decoder.
  Decoder(Model& model, int64_t sequences, int64_t capacity);

  int64_t sequences() const { return static_cast<int64_t>(lengths_.size()); }
  int64_t capacity() const { return capacity_; }
  int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }

  // Appends tokens to each sequence (none is fine) and returns the final hidden states of all of
  // them, sequence after sequence.
  Tensor advance(std::span<const std::vector<int32_t>> tokens);
  // The same for a single sequence.
  Tensor advance(const std::vector<int32_t>& tokens);

  // Empties these sequences, so that others can take their places. Their keys and values go, so no
  // snapshot taken before can be restored.
  void forget(std::span<const int64_t> sequences);

  // Where the batch stood. Cheap: fixed state is replaced, never overwritten, and keys and values
  // before the remembered lengths stay as they are until the decoder is rolled back before them.
  struct Snapshot {
    uint64_t id = 0;
    std::vector<int64_t> lengths;
    std::vector<std::pair<Tensor, Tensor>> fixed;  // by layer: convolutions, value
  };
  Snapshot snapshot();
  // Forgets everything after the snapshot. It must be one of this decoder's, and not from a
  // continuation that has itself been forgotten since: its keys and values are gone.
  void restore(const Snapshot& snapshot);

 private:
  void check(std::span<const std::vector<int32_t>> tokens) const;
  // Key rows of each sequence that a layer with this window may see from each new token.
  KeyRanges ranges(const Segments& segments, int64_t window) const;

  Model& model_;
  StateSpec spec_;
  int64_t capacity_;
  std::vector<int64_t> lengths_;
  Decoding decoding_;
  std::vector<uint64_t> line_;  // snapshots that the present continues, oldest first
};

}  // namespace tephra
