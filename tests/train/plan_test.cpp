// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/plan.h"

#include <gtest/gtest.h>

namespace tephra {
namespace {

RunConfig small_run() {
  RunConfig config;
  config.model.hidden_size = 32;
  config.model.num_hidden_layers = 2;
  config.model.num_attention_heads = 2;
  config.model.num_key_value_heads = 1;
  config.model.head_dim = 16;
  config.model.num_experts = 2;
  config.model.moe_intermediate_size = 32;
  config.model.router_hidden_size = 16;
  PhaseSettings phase;
  phase.steps = 2;
  phase.context = 32;
  phase.batch_tokens = 32;
  config.phases = {phase};
  config.step.micro_tokens = 32;
  return config;
}

std::string plan_of(const RunConfig& config) {
  return plan_text(config, model_config(config.model, 256), Phases(config.phases), "run", kCpu);
}

// The table's row of the embedding.
std::string embedding_row(const std::string& plan) {
  const size_t begin = plan.find("model.embed_tokens");
  return begin == std::string::npos ? "" : plan.substr(begin, plan.find('\n', begin) - begin);
}

TEST(Plan, ShowsTheRulesThatTheConfigMakesForParameters) {
  RunConfig config = small_run();
  EXPECT_NE(embedding_row(plan_of(config)).find("adamw"), std::string::npos) << plan_of(config);
  RuleSettings rule;
  rule.names = "*embed_tokens*";
  rule.rule = "frozen";
  config.optimizer.rules = {rule};
  EXPECT_NE(embedding_row(plan_of(config)).find("frozen"), std::string::npos) << plan_of(config);
  const MemoryPlan without = plan_memory(small_run(), model_config(config.model, 256),
                                         Phases(config.phases), kCpu),
                   with = plan_memory(config, model_config(config.model, 256),
                                      Phases(config.phases), kCpu);
  EXPECT_EQ(without.optimizer - with.optimizer, 256 * 32 * 4) << "no second moment";
}

}  // namespace
}  // namespace tephra
