// SPDX-License-Identifier: Apache-2.0
// Files as they are before anybody has read them: for timing a cold start beside the disk.
#pragma once

#include <cstdint>
#include <span>

#include "tephra/base/files.h"

namespace tephra {

// Asks the system to forget what it holds of these files in memory. Files that are mapped stay.
void forget_cached(std::span<const Path> files);

// Reads all of them by plain reads on all threads, past the page cache where the file system can;
// bytes per second.
double read_speed(std::span<const Path> files);

// What this process has had read from disk so far, in bytes; 0 where the system does not tell.
int64_t disk_bytes_read();

}  // namespace tephra
