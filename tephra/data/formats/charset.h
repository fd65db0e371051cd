// SPDX-License-Identifier: Apache-2.0
// Pages of any encoding as UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tephra {

// Valid UTF-8 always, without a byte order mark. The encoding is the one that the first bytes tell
// (a mark, or zeros in the first tag), else the one that the HTTP header names, else a <meta>
// within the first KiB, else Windows-1252. Bytes that are UTF-8 stay as they are, unless the
// encoding is one that looks like ASCII (UTF-16, ISO-2022-JP). What cannot be read becomes U+FFFD.
std::string page_as_utf8(std::string_view page, std::string_view header_charset);

// The code point of a byte, as browsers read it.
uint32_t windows_1252(unsigned char byte);

// The value of charset= in a header or a tag; empty when there is none.
std::string_view find_charset(std::string_view text);

}  // namespace tephra
