// SPDX-License-Identifier: Apache-2.0
// Bytes as one LZ4 frame: for what is soon read again, a fifth of the time of zstd for twice the
// bytes. Frames one after another are one file.
#pragma once

#include <string>
#include <string_view>

namespace tephra {

// With its size and a checksum. Nothing is appended for no bytes.
void append_lz4_frame(std::string& out, std::string_view bytes);

}  // namespace tephra
