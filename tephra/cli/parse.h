// SPDX-License-Identifier: Apache-2.0
// What run.cpp needs of command.cpp: one command's words parsed, or its help.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tephra/cli/command.h"

namespace tephra {

struct Parsed {
  std::function<int()> run;  // empty when help was asked for
  std::string help;
};

// `words` are those after the command's name. Fault::usage with a hint when they do not fit.
Parsed parse_command(const Command& command, const std::vector<std::string>& words);

}  // namespace tephra
