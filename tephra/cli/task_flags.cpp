// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/task_flags.h"

namespace tephra {

void TaskFlags::describe(Flags& flags) {
  flags.add("--environments LIST", environments,
            "built-in tasks by kind and level: addition:1-3,sorting:2; all:1 is every kind");
  flags.add("--samples", samples, "of --environments: different tasks of each kind and level")
      .range(1, 1e9)
      .of("--environments");
  flags.add("--split", split, "of --environments: held_out tasks are in no training data")
      .choices({"held_out", "train"})
      .of("--environments");
}

}  // namespace tephra
