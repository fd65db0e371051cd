// SPDX-License-Identifier: Apache-2.0
// ZAYA1's router: a small network over a narrow projection of the stream, which also hears the
// router of the layer before (depth averaging). One class more than there are experts: skip.
#pragma once

#include <initializer_list>
#include <string>

#include "tephra/autograd/parameter.h"
#include "tephra/ops/route.h"

namespace tephra {

struct RouterOutput {
  Routing routing;
  Tensor states_NR;  // carried to the next layer, before the norm
};

class Router {
 public:
  Router(double norm_eps, bool first_layer, const ParameterStore& store, const std::string& prefix);

  // states_NR: of the layer before; undefined in the first.
  RouterOutput forward(const Tensor& h_NH, const Tensor& states_NR,
                       const std::string& tap_name) const;

  // Has idle threads fetch what forward will read for these rows; `own` is what the caller reads
  // before. Nothing of the next layer: where memory is fast that costs more than it gains
  // (docs/decisions/0116-*.md).
  void read_ahead(int64_t rows, std::initializer_list<const Tensor*> own) const;

 private:
  double norm_eps_;
  Weight down_weight_;
  Tensor down_bias_;
  Tensor states_scale_;  // undefined in the first layer
  Tensor norm_weight_;
  Weight fc1_weight_, fc2_weight_, out_weight_;
  Tensor fc1_bias_, fc2_bias_;
  Tensor balancing_biases_;
};

}  // namespace tephra
