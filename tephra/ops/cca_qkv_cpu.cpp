// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/cca_qkv_steps.h"

namespace tephra::kernel {

void CcaQkv::on_cpu() const {
  cca_qkv_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
}

void CcaQkvGrad::on_cpu() const {
  cca_qkv_grad_steps(*this, [](const auto& kernel) { kernel.on_cpu(); });
}

}  // namespace tephra::kernel
