// SPDX-License-Identifier: Apache-2.0
// Shapes: N tokens, H stream width, R router width, E experts.
#include "tephra/nn/router.h"

#include "tephra/core/trace.h"
#include "tephra/core/weight_ahead.h"
#include "tephra/ops/gelu.h"
#include "tephra/ops/linear.h"
#include "tephra/ops/rms_norm.h"
#include "tephra/ops/scaled_add.h"

namespace tephra {

Router::Router(double norm_eps, bool first_layer, const ParameterStore& store,
               const std::string& prefix)
    : norm_eps_(norm_eps),
      down_weight_(store.weight(prefix + "down_proj.weight")),
      down_bias_(store[prefix + "down_proj.bias"]),
      norm_weight_(store[prefix + "router_mlp.norm.weight"]),
      fc1_weight_(store.weight(prefix + "router_mlp.fc1.weight")),
      fc2_weight_(store.weight(prefix + "router_mlp.fc2.weight")),
      out_weight_(store.weight(prefix + "router_mlp.out_proj.weight")),
      fc1_bias_(store[prefix + "router_mlp.fc1.bias"]),
      fc2_bias_(store[prefix + "router_mlp.fc2.bias"]),
      balancing_biases_(store[prefix + "balancing_biases"]) {
  if (!first_layer) states_scale_ = store[prefix + "router_states_scale"];
}

void Router::read_ahead(int64_t rows, std::initializer_list<const Tensor*> own) const {
  tephra::read_ahead(rows, own, {only(down_weight_), only(fc1_weight_), only(fc2_weight_)});
}

RouterOutput Router::forward(const Tensor& h_NH, const Tensor& states_NR,
                             const std::string& tap_name) const {
  Tensor r_NR = linear(h_NH, down_weight_, down_bias_);
  if (states_scale_) r_NR = scaled_add(r_NR, states_NR, states_scale_);

  const Tensor n_NR = rms_norm(r_NR, norm_weight_, norm_eps_);
  const Tensor a_NR = gelu(linear(n_NR, fc1_weight_, fc1_bias_));
  const Tensor b_NR = gelu(linear(a_NR, fc2_weight_, fc2_bias_));
  const Tensor logits_NE = linear(b_NR, out_weight_);  // experts, then skip
  const Routing routing = route(logits_NE, balancing_biases_);

  tap(tap_name + ".logits", logits_NE);
  tap(tap_name + ".weight", routing.weight_N);
  tap(tap_name + ".expert", routing.expert_N);
  return {routing, r_NR};
}

}  // namespace tephra
