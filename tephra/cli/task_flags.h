// SPDX-License-Identifier: Apache-2.0
// The flags of commands that take built-in tasks.
#pragma once

#include <optional>
#include <string>

#include "tephra/cli/command.h"
#include "tephra/data/environments/environment.h"

namespace tephra {

struct TaskFlags {
  std::optional<std::string> environments;
  int64_t samples = 100;
  std::string split = "held_out";

  void describe(Flags& flags);
  Split which() const { return split == "train" ? Split::train : Split::held_out; }
};

}  // namespace tephra
