// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A target may throw nothing but an Error of a fault that the file's
// author could have caused: an internal one, or any other exception, is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tephra/base/error.h"
#include "tephra/base/files.h"
#include "tephra/base/function_ref.h"

namespace tephra::fuzz {

// Runs `read` and checks how it fails, if it does.
void expect_reads_or_refuses(FunctionRef<void()> read);

// The bytes as a file that can be opened by name.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const Path& path() const { return path_; }

 private:
  int fd_;
  Path path_;
};

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace tephra::fuzz
