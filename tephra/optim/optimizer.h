// SPDX-License-Identifier: Apache-2.0
// One optimizer step over all parameters of a store: norm and clipping, AdamW and Muon by the
// rules.
//
//   Optimizer optimizer(model.parameters(), assign_rules(model.parameters().specs()), options);
//   parameters.clear_gradients();
//   ... backward, once for each micro-batch: gradients add up ...
//   const StepReport report = optimizer.step(schedule.at(step + 1));
//
// Muon (Jordan et al. 2024; RMS matching by Liu et al. 2025), for each matrix:
//   m <- momentum m + g,  u = g + momentum m
//   p <- p (1 - lr wd) - lr scale sqrt(max(rows, cols)) newton_schulz(u / (|u| + 1e-7))
#pragma once

#include <string>
#include <vector>

#include "tephra/optim/clip.h"
#include "tephra/optim/newton_schulz.h"
#include "tephra/optim/rules.h"
#include "tephra/optim/update.h"

namespace tephra {

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  double scale = 0.2;  // matches the RMS of AdamW's updates, so that both share one learning rate
  NewtonSchulzOptions newton_schulz = {};
};

struct OptimizerOptions {
  AdamWOptions adamw = {};
  MuonOptions muon = {};
  double weight_decay = 0.1;
  double clip_norm = 1.0;  // 0: none
};

// What Muon's matrices may take at a time on a GPU, where a batch of them is a few launches.
inline constexpr int64_t kMuonGpuBytes = int64_t{2} << 30;

struct StepReport {
  GradientNorm gradients;
  bool applied = false;  // false: the gradients were not finite and nothing was touched
  int64_t updates = 0;   // applied so far
  double norm_seconds = 0;
  double adamw_seconds = 0;
  double muon_seconds = 0;

  double seconds() const { return norm_seconds + adamw_seconds + muon_seconds; }
};

// State that a checkpoint keeps, under the parameter's global name: "adamw.m.NAME", "adamw.v.NAME",
// "muon.momentum.NAME", "master_remainder.NAME".
struct StateTensor {
  std::string name;
  std::string parameter;
  Tensor tensor;  // a view of the state, in the parameter's shape: read it, or copy into it
};

class Optimizer {
 public:
  // Keeps a reference to `store`, which has gradients.
  Optimizer(ParameterStore& store, std::vector<ParameterRule> rules,
            const OptimizerOptions& options);

  // Clips and updates. Does not clear the gradients.
  StepReport step(double lr);
  // The same with a norm that was found elsewhere: over all ranks, or with a loss that failed.
  StepReport step(double lr, const GradientNorm& norm);
  // Of the trained parameters, summed in one fixed order.
  double sum_of_squares() const;

  const std::vector<ParameterRule>& rules() const { return rules_; }
  const OptimizerOptions& options() const { return options_; }
  std::string table() const { return rules_table(store_.specs(), rules_); }

  // Work of one step.
  NewtonSchulzFlops newton_schulz_flops() const;
  int64_t state_bytes() const;

  // For checkpoints: the tensors and how many updates were applied.
  std::vector<StateTensor> state() const;
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

 private:
  // Equal matrices that go through Newton-Schulz together.
  struct Batch {
    int64_t rows, cols;
    std::vector<Piece> matrices;  // whole ones
  };

  void allocate_state();
  void add_matrices(size_t i);
  std::vector<Batch> batches(int64_t max_bytes) const;
  void update_muon(const StepScalars& scalars);
  void update_batch(const Batch& batch, const StepScalars& scalars);
  MasterValues values() const { return {store_.flat_values(), remainder_}; }

  ParameterStore& store_;
  std::vector<ParameterRule> rules_;
  OptimizerOptions options_;
  int64_t updates_ = 0;
  Tensor first_;      // AdamW's m, Muon's momentum: at the offsets of the flat buffer
  Tensor second_;     // AdamW's v, packed
  Tensor remainder_;  // of the f32 masters of bf16 values
  std::vector<int64_t> second_offsets_;  // -1: none
  std::vector<Piece> trained_;           // all that the norm is of
  std::vector<Piece> adamw_;
  std::vector<Batch> muon_;  // one entry a shape
};

}  // namespace tephra
