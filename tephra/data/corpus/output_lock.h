// SPDX-License-Identifier: Apache-2.0
// One run at a time writes into a folder: of a command that was started twice, or again before it
// was dead, the second is told so instead of mixing its bytes with the first one's.
#pragma once

#include "tephra/data/corpus/stage.h"

namespace tephra {

// Held until the process ends, however it does. Fault::usage when another process has it. Where the
// file system knows no locks there are none. Shards share the folder.
void lock_output(const Path& out, const Shard& shard);
// The lock that each shard has of its own, below the work folder: only once the output is known to
// be unfinished (prepare_output), because that folder is the sign of it.
void lock_share(const Path& out, const Shard& shard);
// The same for a token shard, by .NAME.lock beside it, which stays: one that is renamed or removed
// could be held twice. Processes that make a shard together share it.
void lock_shard(const Path& prefix, bool shared = false);

}  // namespace tephra
