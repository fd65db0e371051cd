// SPDX-License-Identifier: Apache-2.0
// What `checkpoint inspect` and `checkpoint verify` do with a training checkpoint (step-N) or a
// run folder, which holds several.
#pragma once

#include "tephra/base/files.h"

namespace tephra {

// Whether the path is one of these.
bool holds_training(const Path& path);

int inspect_training(const Path& path, bool json);
int verify_training(const Path& path, bool json);

}  // namespace tephra
