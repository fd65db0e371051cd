// SPDX-License-Identifier: Apache-2.0
// One more token for each of some sequences, as a single piece of work on a device: what a model
// that has kernels of its own for this offers beside forward().
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tephra/nn/state.h"

namespace tephra {

// Where the sequences' state lies. Row r of a sequence in slot s is row r % block_tokens of block
// tables[s][r / block_tokens] of the layers' keys and values; its fixed state is conv[s], value[s].
struct DecodeMemory {
  std::vector<LayerState> layers;
  Tensor tables;  // i32 [slots, blocks of the longest sequence]
  int64_t block_tokens = 0;
  int64_t filler_slot = 0;  // for rows that make up a number; its table names a block of its own
};

class DecodeStep {
 public:
  struct Row {
    int32_t token;     // the newest, which the model has not seen
    int32_t position;  // of that token
    int32_t slot;
  };

  virtual ~DecodeStep() = default;

  virtual int64_t most_rows() const = 0;
  // Feeds the rows: their state goes on by a token. At most most_rows() of them.
  virtual void run(std::span<const Row> rows) = 0;
  // The same rows again, each fed with its likeliest token, without asking the host. `recorded`:
  // as the graph it is; else kernel by kernel, for gpu::start_profile.
  virtual void run_on(bool recorded = true) = 0;

  // From the next run on each row takes the experts that are named here, i32 [layers, rows] on the
  // host, with the weight that its router gives them; undefined: those that its router chooses.
  virtual void replay(const Tensor& experts) = 0;

  // After a run, until the next; on the device, a row for each of the run's.
  virtual Tensor logits() const = 0;  // f32 [rows, vocabulary]
  // Which expert each row chose in each layer: i32 [layers, rows], the number of experts for skip.
  virtual Tensor experts() const = 0;
  // The likeliest usable token of each row, the lowest of equals, with its logit; NaN is the
  // likeliest. Eight bytes a row come to the host.
  struct Likeliest {
    int32_t token;
    float logit;
  };
  virtual std::vector<Likeliest> likeliest() const = 0;
  // The usable tokens of each row whose logits are at least least[row], in no order; nothing where
  // they are more than kMostCandidates. Eight bytes each come to the host.
  static constexpr int64_t kMostCandidates = 32768;
  virtual std::vector<std::optional<std::vector<Likeliest>>> at_least(
      std::span<const float> least) = 0;
};

}  // namespace tephra
