// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/cca_heads_steps.h"

namespace tephra::kernel {

void CcaHeads::on_cpu() const {
  cca_heads_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
}

void CcaHeadsGrad::on_cpu() const {
  cca_heads_grad_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
}

}  // namespace tephra::kernel
