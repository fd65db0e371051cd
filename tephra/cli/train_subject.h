// SPDX-License-Identifier: Apache-2.0
// A model with an optimizer and a batch of random tokens, for benches of training.
#pragma once

#include <memory>
#include <vector>

#include "tephra/models/model.h"
#include "tephra/optim/optimizer.h"
#include "tephra/train/config.h"
#include "tephra/train/micro_batch.h"
#include "tephra/train/run_speed.h"

namespace tephra {

// The model of configs/60m.toml, for machines that have no configs/ at hand.
RunConfig train_bench_config();

// The model's config.json; its vocabulary is the tokenizer's where the config does not say.
Json bench_model_json(const RunConfig& config);

// The most tokens up to `tokens` that are whole documents of the config's context, or one shorter
// document.
int64_t whole_documents(const RunConfig& config, int64_t tokens);

class TrainSubject {
 public:
  // `tokens`: as whole_documents gives them.
  TrainSubject(const RunConfig& config, int64_t tokens);

  // Another batch for the same model.
  void set_tokens(int64_t tokens);
  void forward_backward();
  StepReport optimizer_step();

  const ModelFigures& figures() const { return figures_; }
  StepWork work() const;  // of forward_backward
  const Optimizer& optimizer() const { return optimizer_; }
  Model& model() { return *model_; }
  const std::vector<MicroBatch>& batch() const { return batch_; }
  int64_t context() const { return context_; }

 private:
  RunConfig config_;
  std::unique_ptr<Model> model_;
  Optimizer optimizer_;
  Recompute recompute_;
  int64_t tokens_ = 0, context_ = 0;
  ModelFigures figures_;
  std::vector<MicroBatch> batch_;
};

}  // namespace tephra
