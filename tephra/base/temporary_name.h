// SPDX-License-Identifier: Apache-2.0
// What a file is called until it is whole. A kill may leave such files behind; whoever holds the
// lock of the file they were for may remove them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tephra/base/files.h"

namespace tephra {

// The n-th of this process for a file of that name.
std::string temporary_name(std::string_view file, int64_t n);
// Of any process.
bool is_temporary_name(std::string_view name, std::string_view file);

// Removes the temporary files of a folder that have `of` in their names and whose process is no
// more, by its number on this host.
void remove_abandoned_temporaries(const Path& folder, std::string_view of);

}  // namespace tephra
