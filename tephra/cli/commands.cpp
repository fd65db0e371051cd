// SPDX-License-Identifier: Apache-2.0
// The table of commands: one row each, declared in cmd_<name>.cpp.
#include "tephra/cli/command.h"

namespace tephra {

Command bench_ops_command();
Command doctor_command();

namespace {

Command grouped(const char* group, Command command) {
  command.group = group;
  return command;
}

}  // namespace

std::vector<Command> all_commands() {
  return {
      grouped("This machine", doctor_command()),
      grouped("This machine", bench_ops_command()),
  };
}

}  // namespace tephra
