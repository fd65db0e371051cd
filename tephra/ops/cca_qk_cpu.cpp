// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/cca_qk_steps.h"

namespace tephra::kernel {

void CcaQk::on_cpu() const {
  cca_qk_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
}

void CcaQkGrad::on_cpu() const {
  cca_qk_grad_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
}

}  // namespace tephra::kernel
