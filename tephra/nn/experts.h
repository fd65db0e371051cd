// SPDX-License-Identifier: Apache-2.0
// SwiGLU experts, one per token: plan, exchange, grouped products, exchange back.
#pragma once

#include <string>

#include "tephra/autograd/parameter.h"
#include "tephra/ops/dispatch.h"
#include "tephra/ops/route.h"

namespace tephra {

// What the class after the last expert does when it wins.
enum class SkipRule {
  zero,      // nothing, as transformers does
  identity,  // its weight times the input, as the original code does
};

class Experts {
 public:
  Experts(int64_t num_experts, SkipRule skip_rule, const ParameterStore& store,
          const std::string& prefix);

  // m = weight * expert(h), each token by the expert it was routed to; still in the order of the
  // experts, for whoever merges it.
  RoutedRows forward(const Tensor& h_NH, const Routing& routing) const;

 private:
  int64_t num_experts_;
  SkipRule skip_rule_;
  Weight gate_up_weight_;  // [E, 2F, H], gate rows first
  Weight down_weight_;     // [E, H, F]
};

}  // namespace tephra
