// SPDX-License-Identifier: Apache-2.0
// Bodies of HTTP messages as they were before their Content-Encoding.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tephra {

struct DecodedContent {
  enum class End { whole, cut, too_long, damaged };
  End end = End::damaged;  // damaged: or of a coding that is unknown
  std::string body;        // of `cut`, what comes before
};

// Undoes `codings` ("gzip", "br", "deflate, gzip"; in lower case), the last one first, as far as
// `most` bytes. Known are gzip, deflate, br and zstd.
DecodedContent decode_content(std::string_view codings, std::string_view bytes, size_t most);

}  // namespace tephra
