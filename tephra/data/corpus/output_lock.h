// SPDX-License-Identifier: Apache-2.0
// One run at a time writes into a folder: of a command that was started twice, or again before it
// was dead, the second is told so instead of mixing its bytes with the first one's.
#pragma once

#include "tephra/data/corpus/stage.h"

namespace tephra {

// Held until the process ends, however it does. Shards share a folder, and each has a lock of its
// own. Fault::usage when another process has it. Where the file system knows no locks there are
// none.
void lock_output(const Path& out, const Shard& shard);
// The same for a token shard, by .NAME.lock beside it, which stays: one that is renamed or removed
// could be held twice. Processes that make a shard together share it.
void lock_shard(const Path& prefix, bool shared = false);

}  // namespace tephra
