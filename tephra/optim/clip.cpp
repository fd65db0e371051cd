// SPDX-License-Identifier: Apache-2.0
#include "tephra/optim/clip.h"

#include <algorithm>
#include <cmath>

namespace tephra {

GradientNorm clip(double sum_of_squares, double max_norm) {
  GradientNorm g;
  g.norm = std::sqrt(sum_of_squares);
  g.finite = std::isfinite(g.norm);
  if (g.finite && max_norm > 0) g.scale = std::min(1.0, max_norm / (g.norm + 1e-6));
  return g;
}

}  // namespace tephra
