// SPDX-License-Identifier: Apache-2.0
// Pages of any encoding as UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace tephra {

// Valid UTF-8 always. Bytes that are UTF-8 stay as they are, whatever a page says; others are read
// in the encoding that the HTTP header names, else the one that the page names within its first
// KiB, else Windows-1252. What cannot be read becomes U+FFFD.
std::string page_as_utf8(std::string_view page, std::string_view header_charset);

// The value of charset= in a header or a tag; empty when there is none.
std::string_view find_charset(std::string_view text);

}  // namespace tephra
