// SPDX-License-Identifier: Apache-2.0
#include "tephra/nn/dense_ffn.h"

#include "tephra/ops/linear.h"
#include "tephra/ops/swiglu.h"

namespace tephra {

DenseFfn::DenseFfn(const ParameterStore& store, const std::string& prefix)
    : gate_up_weights_{store.weight(prefix + "gate_proj.weight"),
                       store.weight(prefix + "up_proj.weight")},
      down_weight_(store.weight(prefix + "down_proj.weight")) {}

Tensor DenseFfn::forward(const Tensor& h_NH) const {
  return linear(swiglu(linear(h_NH, gate_up_weights_, Tensors{})), down_weight_);
}

}  // namespace tephra
