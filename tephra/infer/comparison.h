// SPDX-License-Identifier: Apache-2.0
// Collects the differences of one check over several tensors.
#pragma once

#include <string>

#include "tephra/infer/verify.h"

namespace tephra {

class Comparison {
 public:
  Comparison(std::string name, Metric metric, double bound) {
    check_.name = std::move(name);
    check_.metric = metric;
    check_.bound = bound;
  }

  // Adds one tensor; shapes may differ as long as the number of elements agrees. `mask`, when
  // given, has one element per row of `want`: rows where it is zero do not count.
  void add(const std::string& tensor, const Tensor& got, const Tensor& want,
           const Tensor& mask = {});

  // A tensor that could not be computed.
  void fail(const std::string& reason);

  const Check& check() const { return check_; }

 private:
  Check check_;
  double worst_ = -1;
};

}  // namespace tephra
