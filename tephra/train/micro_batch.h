// SPDX-License-Identifier: Apache-2.0
// One optimizer step's batch in parts that fit into memory. The loss of a step is the mean over all
// of its targets, so a part counts by its targets, not as one of so many parts; gradients add up in
// the flat buffer, in f32 or wider.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tephra/autograd/tape.h"
#include "tephra/models/model.h"

namespace tephra {

struct MicroBatch {
  Tensor ids_N;  // i32
  Segments segments;
  Tensor targets_N;  // i32, -1: none
};

// Equally long rows of ids [sequences, tokens]; each token's target is its successor in the row.
// `name` is for messages: an id outside the vocabulary is a Fault::data.
MicroBatch next_token_batch(const Tensor& ids, const TokenIds& tokens, const std::string& name);

int64_t count_targets(const MicroBatch& batch);

struct AccumulateOptions {
  Recompute recompute = {};
  // What the mean is over; 0: the targets of these parts. With several ranks: of all of them.
  int64_t targets = 0;
  // Whether Ctrl-C ends it between two parts. A run that keeps its state finishes the step instead.
  bool may_stop = false;
};

struct Accumulated {
  double loss = 0;      // this rank's part of the mean
  int64_t targets = 0;  // of these parts
  // For each of Model::routers(): tokens of each expert, then of skip.
  std::vector<std::vector<int64_t>> expert_counts;
};

// Clears the gradients, then forward and backward over every part.
Accumulated accumulate_gradients(Model& model, std::span<const MicroBatch> parts,
                                 const AccumulateOptions& options = {});

}  // namespace tephra
