// SPDX-License-Identifier: Apache-2.0
// The global norm of the gradients, and what clipping makes of it.
#pragma once

namespace tephra {

struct GradientNorm {
  double norm = 0;     // before clipping
  bool finite = true;  // false: no update is made of these gradients
  double scale = 1;    // times the gradients
};

// From the sum of the squares of all gradients (over all ranks). max_norm 0: no clipping. The scale
// is max_norm / (norm + 1e-6) where that is below 1.
GradientNorm clip(double sum_of_squares, double max_norm);

}  // namespace tephra
