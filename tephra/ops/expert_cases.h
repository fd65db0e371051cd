// SPDX-License-Identifier: Apache-2.0
// Routings for the specs of the expert ops, and the plan by plain loops.
#pragma once

#include <string>
#include <vector>

#include "tephra/core/tensor.h"

namespace tephra {

struct ExpertCase {
  std::string name;
  int64_t num_experts;
  Tensor expert_N;
};

// Places of the plan: token of each, and how many of them belong to experts.
struct NaivePlan {
  std::vector<int64_t> token;
  int64_t routed = 0;
};

Tensor experts_of(const std::vector<int32_t>& expert);
// Tokens over `classes` experts, unevenly; class num_experts, when among them, is the skip class.
Tensor spread_experts(int64_t tokens, int64_t classes);
// Odd ones included: no tokens, one token, experts without rows, everybody skipped.
std::vector<ExpertCase> expert_cases();
NaivePlan naive_plan(const Tensor& expert_N, int64_t num_experts);

}  // namespace tephra
