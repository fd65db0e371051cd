// SPDX-License-Identifier: Apache-2.0
// The two halves of running a command: its words parsed, and its exceptions made into exit codes.
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

// Runs `body`; an exception becomes a message of `who` and its exit code. A usage error without a
// hint of its own gets `usage_hint`.
int guarded(const std::string& who, const std::string& usage_hint,
            const std::function<int()>& body);

}  // namespace tephra
