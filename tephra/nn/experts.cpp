// SPDX-License-Identifier: Apache-2.0
#include "tephra/nn/experts.h"

#include "tephra/ops/grouped_linear.h"
#include "tephra/ops/swiglu.h"

namespace tephra {

Experts::Experts(int64_t num_experts, SkipRule skip_rule, const ParameterStore& store,
                 const std::string& prefix)
    : num_experts_(num_experts),
      skip_rule_(skip_rule),
      gate_up_weight_(store.weight(prefix + "gate_up_proj")),
      down_weight_(store.weight(prefix + "down_proj")) {}

RoutedRows Experts::forward(const Tensor& h_NH, const Routing& routing) const {
  const DispatchPlan plan = plan_dispatch(routing.expert_N, num_experts_);
  const Tensor x_NH = dispatch_rows(h_NH, plan);  // rows in the order of the experts
  const Tensor a_NF = swiglu(grouped_linear(x_NH, gate_up_weight_, plan));
  return {.y = grouped_linear(a_NF, down_weight_, plan),
          .weight_N = routing.weight_N,
          .plan = plan,
          .skip_input = skip_rule_ == SkipRule::identity ? h_NH : Tensor()};
}

}  // namespace tephra
