// SPDX-License-Identifier: Apache-2.0
// The bytes of a file from front to back, decompressed by the ending of its name: .gz (also several
// members), .zst and .lz4 (also several frames), anything else as it is.
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "tephra/base/files.h"

namespace tephra {

class ByteReader {
 public:
  // Fault::usage when the file cannot be opened.
  static std::unique_ptr<ByteReader> open(const Path& path);
  virtual ~ByteReader() = default;

  // Fills `out` as far as there is something; 0 at the end. Damaged content is Fault::data, once
  // all that comes before it has been read.
  size_t read(std::span<char> out);

  // Bytes of the file read so far, compressed as they are: how far the reading is.
  virtual int64_t file_bytes() const = 0;

  // Of formats that are converted: what the file holds beside documents and is not given, by
  // reason. All of it at the end.
  virtual std::map<std::string, int64_t> left_out() const { return {}; }

 protected:
  // At least one byte unless the end is reached. Not called again after an error.
  virtual size_t read_some(std::span<char> out) = 0;

 private:
  std::exception_ptr damage_;
};

// The path without .gz, .zst or .lz4.
Path without_compression(const Path& path);

}  // namespace tephra
