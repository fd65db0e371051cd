// SPDX-License-Identifier: Apache-2.0
// The lines of a file in windows of bounded size that end with a line. Where windows end depends
// on the content alone. A line that is too long is left out and named; damage ends the file.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/io/byte_reader.h"

namespace tephra {

struct Line {
  size_t begin = 0;  // in the window's bytes
  size_t size = 0;
  int64_t row = 0;  // in the file, from 1
};

struct LineWindow {
  static constexpr size_t kPadding = 64;  // bytes that parsers may read after the last line

  std::string bytes;
  std::vector<Line> lines;         // those that are not blank
  std::vector<int64_t> long_rows;  // of lines that were left out
  int64_t end_offset = 0;          // in the decompressed file
  int64_t end_row = 0;             // rows so far
  int64_t file_bytes = 0;          // read from disk so far
  bool last = false;               // nothing comes after it
  std::string damage;              // why the rest of the file cannot be read; empty: it can

  std::string_view text(const Line& line) const {
    return std::string_view(bytes).substr(line.begin, line.size);
  }
};

class LineWindows {
 public:
  LineWindows(const Path& path, size_t window_bytes, size_t max_line_bytes)
      : path_(path), window_bytes_(window_bytes), max_line_bytes_(max_line_bytes) {}

  // Goes on after a window that ended there.
  void skip_to(int64_t offset, int64_t row);

  LineWindow next();

 private:
  bool read_more(std::string& to);  // false at the end
  void fill(LineWindow& window);
  void skip_long_line(LineWindow& window);
  void cut_lines(LineWindow& window, size_t end);

  Path path_;
  size_t window_bytes_;
  size_t max_line_bytes_;
  std::unique_ptr<ByteReader> reader_;
  std::string rest_;  // read, after the last window
  int64_t skip_ = 0;  // bytes to pass over before the first window
  int64_t offset_ = 0, row_ = 0;
  bool at_end_ = false;
};

}  // namespace tephra
