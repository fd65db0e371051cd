// SPDX-License-Identifier: Apache-2.0
// Replays a recorded training run (docs/formats/golden.md) and compares losses, gradient norms and
// final parameters with it.
#pragma once

#include "tephra/infer/verify.h"
#include "tephra/optim/optimizer.h"

namespace tephra {

struct Trajectory {
  UpdateRule matrices = UpdateRule::muon;  // muon, or adamw for everything
  double lr = 0;
  OptimizerOptions options;
};

// From the file's metadata; a key that is missing or makes no sense is a Fault::data that names it.
Trajectory read_trajectory(const SafetensorsFile& file);

// Trains `model` (f32 or f64, with gradients) on the file's batches. `matrices` is what the caller
// asked for; a file of another optimizer is a Fault::usage.
VerifyReport verify_trajectory(Model& model, const SafetensorsFile& file, UpdateRule matrices);

}  // namespace tephra
