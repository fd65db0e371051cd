// SPDX-License-Identifier: Apache-2.0
// Bytes as one zstd frame. Frames one after another are one file, so parts of a file can be
// compressed on many threads; the same bytes give the same frame.
#pragma once

#include <string>
#include <string_view>

namespace tephra {

// With its size and a checksum. Nothing is appended for no bytes.
void append_zstd_frame(std::string& out, std::string_view bytes, int level);

}  // namespace tephra
