// SPDX-License-Identifier: Apache-2.0
// Everything that a run is at the end of a step, as a checkpoint keeps it: tensors under their
// global names, and the little that is no tensor. Nothing else may influence what comes after.
#pragma once

#include <string>
#include <vector>

#include "tephra/models/model.h"
#include "tephra/optim/balance.h"
#include "tephra/optim/optimizer.h"
#include "tephra/train/checkpoint.h"
#include "tephra/train/checkpoint_writer.h"
#include "tephra/train/guard.h"
#include "tephra/train/step_data.h"

namespace tephra {

struct RunState {
  Model& model;
  Optimizer& optimizer;
  BalanceController& balance;
  Guard& guard;
  std::vector<SkippedSamples>& skipped;

  // Parameters by their published names, then the state of the optimizers.
  std::vector<NamedTensor> tensors() const;
  // The rest. `config` is the resolved config, as text; `model_config` what export writes.
  Json save(const std::string& config, const Json& model_config) const;
  // Fault::data naming what is missing, or of another shape.
  void load(const Checkpoint& checkpoint) const;
};

}  // namespace tephra
