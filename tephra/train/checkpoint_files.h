// SPDX-License-Identifier: Apache-2.0
// What CheckpointWriter does on disk, without its thread. The caller owns the run folder.
#pragma once

#include <span>

#include "tephra/train/checkpoint_writer.h"

namespace tephra {

// Writes FOLDER/step-N as a whole or not at all, and returns its bytes. One of that name that is
// there is replaced when the new one is on disk.
int64_t write_checkpoint(const Path& folder, int64_t step, std::span<const NamedTensor> tensors,
                         const Json& state, const CheckpointOptions& options);

// Those that `keep` does not name; the one of `newest_step`, which was just written, stays. One
// that cannot be removed is warned about.
void remove_old_checkpoints(const Path& folder, const KeepPolicy& keep, int64_t newest_step);

// What writers and removers that were killed left.
void remove_leftovers(const Path& folder);

}  // namespace tephra
