// SPDX-License-Identifier: Apache-2.0
// Bodies of HTTP messages as they were before their Content-Encoding.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tephra {

// Undoes `codings` ("gzip", "br", "deflate, gzip"; in lower case), the last one first. Nothing when
// one is unknown (others than gzip, deflate, br and zstd), the bytes are damaged, or they become
// more than `most`.
std::optional<std::string> decode_content(std::string_view codings, std::string_view bytes,
                                          size_t most);

}  // namespace tephra
