// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <string_view>

namespace tephra {

// In pieces so small that the system's cache keeps the file in small pages: a new file, since what
// is there of an old one stays as it is.
inline void write_in_small_pieces(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::remove(path);
  std::ofstream file(path, std::ios::binary);
  for (size_t i = 0; i < text.size(); i += 5000) file << text.substr(i, 5000) << std::flush;
}

}  // namespace tephra
