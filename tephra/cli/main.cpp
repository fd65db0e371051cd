// SPDX-License-Identifier: Apache-2.0
// The front door. Compiled for any x86-64 (see CMakeLists.txt), so that a CPU below the baseline of
// the rest gets a sentence and not an illegal instruction.
#include <cstdio>

#include "tephra/cli/command.h"

int main(int argc, char** argv) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::fputs("tephra: this build needs a CPU with AVX2 and FMA (2013 or later)\n", stderr);
    return 4;  // Fault::device
  }
#endif
  return tephra::run_command_line(argc, argv);
}
