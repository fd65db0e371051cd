// SPDX-License-Identifier: Apache-2.0
// Which optimizer updates which parameter. The kind of a parameter decides, not its name: Muon for
// projections, router matrices and experts, AdamW for everything else that is trained, nothing for
// buffers. Every parameter of two or more axes decays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/autograd/parameter.h"

namespace tephra {

enum class UpdateRule { adamw, muon, frozen };

std::string to_text(UpdateRule rule);

struct ParameterRule {
  UpdateRule rule = UpdateRule::frozen;
  bool decays = false;
  double rate = 1;  // times the learning rate
};

// An exception to what the kinds say, for every parameter whose name matches.
struct RuleOverride {
  std::string names;  // '*' stands for any text
  std::optional<UpdateRule> rule = {};
  std::optional<bool> decays = {};
  std::optional<double> rate = {};
};

struct RuleOptions {
  UpdateRule matrices = UpdateRule::muon;    // of kinds matrix and experts; or adamw
  std::vector<RuleOverride> overrides = {};  // later ones win
};

// One rule for each spec. An override that matches nothing, or that gives Muon something that is no
// matrix, is a Fault::usage.
std::vector<ParameterRule> assign_rules(const std::vector<ParameterSpec>& specs,
                                        const RuleOptions& options = {});

// The matrices that Muon sees in a parameter: an expert tensor [E, rows, cols] is E of them.
struct Matrices {
  int64_t count, rows, cols;
};
Matrices matrices_of(const ParameterSpec& spec);

// The assignment for people: a row for each group of parameters that differ only in their numbers
// (layers) and have the same shape and rule, then the sums of each rule.
std::string rules_table(const std::vector<ParameterSpec>& specs,
                        const std::vector<ParameterRule>& rules);

}  // namespace tephra
