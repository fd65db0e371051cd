// SPDX-License-Identifier: Apache-2.0
// `tephra eval --against`: a model beside another one on the same texts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/eval/environments.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct AgainstOptions {
  std::string model, reference;  // folders
  std::string dtype;             // of the arithmetic of a model that is not quantised
  std::string device;            // as --device says it
  std::vector<std::pair<std::string, std::string>> texts;  // name, content
  EnvironmentEvalOptions tasks;
  int64_t window = 0;
  std::optional<double> max_kl, min_agreement;
  bool json = false;
};

// Prints; the exit code, which is that of failed data when a limit is exceeded.
int run_against(const AgainstOptions& options);

}  // namespace tephra
