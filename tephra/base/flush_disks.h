// SPDX-License-Identifier: Apache-2.0
// Many small files at the price of one flush: they are written without, then their disk is flushed.
#pragma once

#include <span>
#include <string_view>

#include "tephra/base/files.h"

namespace tephra {

// Whole or not at all after a kill; after a power cut only if the disk was flushed since.
void write_file_unflushed(const Path& path, std::string_view text);

// Everything that was written to the file systems of these folders, by anybody, is on disk when it
// returns. Fault::data when that fails.
void flush_disks(std::span<const Path> folders);

}  // namespace tephra
