// SPDX-License-Identifier: Apache-2.0
// safetensors bytes put together by hand, right or wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tephra {

inline std::string raw_safetensors(uint64_t header_bytes, std::string_view header,
                                   std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(header_bytes >> (8 * i));
  bytes += header;
  bytes += data;
  return bytes;
}

inline std::string raw_safetensors(std::string_view header, std::string_view data) {
  return raw_safetensors(header.size(), header, data);
}

}  // namespace tephra
