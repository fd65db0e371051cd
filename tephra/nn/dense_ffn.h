// SPDX-License-Identifier: Apache-2.0
// A SwiGLU feed-forward layer that every token meets whole, as in Llama.
#pragma once

#include <string>

#include "tephra/autograd/parameter.h"

namespace tephra {

class DenseFfn {
 public:
  DenseFfn(const ParameterStore& store, const std::string& prefix);

  // down(silu(gate(h)) * up(h)).
  Tensor forward(const Tensor& h_NH) const;

 private:
  Weights gate_up_weights_;  // [F, H] each
  Weight down_weight_;       // [H, F]
};

}  // namespace tephra
