// SPDX-License-Identifier: Apache-2.0
#include "tephra/ops/expert_cases.h"

namespace tephra {

Tensor experts_of(const std::vector<int32_t>& expert) {
  return from_values({static_cast<int64_t>(expert.size())}, expert);
}

Tensor spread_experts(int64_t tokens, int64_t classes) {
  std::vector<int32_t> expert;
  for (int64_t i = 0; i < tokens; ++i) {
    expert.push_back(static_cast<int32_t>((i * 7 + i / 3 + i * i / 5) % classes));
  }
  return experts_of(expert);
}

std::vector<ExpertCase> expert_cases() {
  return {
      {"one token", 3, experts_of({1})},
      {"one skipped token", 3, experts_of({3})},
      {"no tokens", 3, experts_of({})},
      {"an expert without rows", 3, experts_of({2, 0, 0, 2, 2})},
      {"all tokens skipped", 2, experts_of({2, 2, 5})},
      {"one expert has all", 4, experts_of(std::vector<int32_t>(40, 2))},
      {"some tokens skipped", 4, spread_experts(77, 5)},
  };
}

NaivePlan naive_plan(const Tensor& expert_N, int64_t num_experts) {
  NaivePlan plan;
  for (int64_t e = 0; e <= num_experts; ++e) {
    if (e == num_experts) plan.routed = static_cast<int64_t>(plan.token.size());
    for (int64_t t = 0; t < expert_N.numel(); ++t) {
      const auto of = static_cast<int64_t>(expert_N.at(t));
      if (of == e || (e == num_experts && of > e)) plan.token.push_back(t);
    }
  }
  return plan;
}

}  // namespace tephra
