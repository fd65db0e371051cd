// SPDX-License-Identifier: Apache-2.0
// The index as one file that is mapped, not read: docs/formats/retrieve-index.md. It appears under
// its name only when it is whole, and replaces an older one at once; who has the older one open
// goes on with it.
#pragma once

#include "tephra/base/files.h"
#include "tephra/retrieve/index.h"

namespace tephra {

constexpr uint32_t kIndexVersion = 1;

void write_index(const Path& path, const Index& index);

// Every hash and every bound is checked before a byte is used. Fault::data says what is wrong.
Index open_index(const Path& path);

// The same of bytes in memory, aligned to 64 and kept by `owner`. Without `hashes` only the bounds
// are checked, so that a fuzzer gets to them.
Index read_index(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                 const std::string& where, bool hashes = true);

}  // namespace tephra
