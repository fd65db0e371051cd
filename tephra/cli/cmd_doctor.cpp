// SPDX-License-Identifier: Apache-2.0
// tephra doctor: what this machine offers.
#include <cstdio>

#include "tephra/base/format.h"
#include "tephra/base/parallel.h"
#include "tephra/cli/command.h"

namespace tephra {
namespace {

struct Options {};

void describe(Flags& flags, Options&) { flags.example("tephra doctor"); }

int run(const Options&) {
  std::fputs(format("threads  {}\n", num_threads()).c_str(), stdout);
  return 0;
}

}  // namespace

Command doctor_command() {
  return command<Options>("doctor", "what this machine offers", describe, run);
}

}  // namespace tephra
