// SPDX-License-Identifier: Apache-2.0
// Accuracy on held-out tasks while a model trains: greedy answers to the same tasks each time. It
// reads the model and changes nothing.
#pragma once

#include <memory>
#include <optional>

#include "tephra/base/json.h"
#include "tephra/eval/environments.h"
#include "tephra/train/config.h"

namespace tephra {

class Evaluation {
 public:
  // Levels that make no sense are Fault::usage here, before anything is trained.
  Evaluation(const RunConfig& config, std::shared_ptr<const Tokenizer> tokenizer);

  bool wanted() const { return !levels_.empty(); }

  struct Result {
    Json accuracy;    // {kind: {level: share from 0 to 1}}, as a line of metrics has it
    double mean = 0;  // of all tasks
  };
  // Fault::interrupted when the program is asked to stop meanwhile. What else goes wrong is warned
  // about and no result: training does not end for it.
  std::optional<Result> run(Model& model) const;

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<EnvironmentLevel> levels_;
  int64_t tasks_;
  uint64_t seed_;
};

}  // namespace tephra
