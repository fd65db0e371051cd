// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tephra/device/gpu/platform.h"
#include "tephra/ops/linear_cross_entropy.h"

namespace tephra::kernel {

// The loss and its gradients where the fast path takes them (bf16 without a bias, on Hopper);
// false when it does not.
bool loss_by_exponentials(gpu::Stream& stream, const LinearCrossEntropy& k);

}  // namespace tephra::kernel
