// SPDX-License-Identifier: Apache-2.0
// The lines of a file in windows of bounded size, each of whole pieces: the lines that one thread
// works on. Where pieces end depends on the content alone, so what is made of them does not depend
// on the size of windows. A line that is too long is left out and named; damage ends the file.
#pragma once

#include <map>
#include <memory>
#include <optional>
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
  std::vector<Line> lines;                  // those that are not blank
  std::vector<size_t> piece_ends;           // in `lines`
  std::vector<int64_t> long_rows;           // of lines that were left out
  int64_t end_offset = 0;                   // in the decompressed file
  int64_t end_row = 0;                      // rows so far
  int64_t file_bytes = 0;                   // read from disk so far
  bool last = false;                        // nothing comes after it
  std::map<std::string, int64_t> left_out;  // of the last one: ByteReader's, of the whole file
  std::string damage;  // why the rest of the file cannot be read; empty: it can

  // Empties it and keeps its memory, unless that is more: a long line was in it.
  void clear(size_t most_bytes);

  std::string_view text(const Line& line) const {
    return std::string_view(bytes).substr(line.begin, line.size);
  }
};

class LineWindows {
 public:
  // A piece ends with the line that makes it this large, and before a line that is too long.
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  LineWindows(const Path& path, size_t window_bytes, size_t max_line_bytes)
      : path_(path), window_bytes_(window_bytes), max_line_bytes_(max_line_bytes) {}

  // Goes on after a window that ended there.
  void skip_to(int64_t offset, int64_t row);

  // In the memory of a window that is done with.
  LineWindow next(LineWindow used = {});

  // Of bytes that are given instead of read, with an empty path: all whole pieces of them, nothing
  // when there is none. At the end, all that is left, in windows up to one that is the last.
  std::string& given() { return rest_; }  // to append to
  std::optional<LineWindow> next_given(bool end, LineWindow& used);
  const std::string& rest() const { return rest_; }

 private:
  // How far the lines of a window are known.
  struct Scan {
    size_t line = 0;      // where the line begins that has no end yet
    size_t searched = 0;  // no newline from `line` to here
    size_t piece = 0;     // where the piece begins
  };
  // The last place at which the window may end.
  struct Cut {
    size_t bytes = 0, lines = 0, long_rows = 0;
    int64_t row = 0;
  };

  bool read_more(std::string& to);  // false at the end
  void fill(LineWindow& window, Scan& scan);
  bool scan_lines(LineWindow& window, Scan& scan);  // false where the window must end
  void take_line(LineWindow& window, size_t begin, size_t end);
  void end_piece(const LineWindow& window, Scan& scan, size_t at);
  void skip_long_line(LineWindow& window);
  void begin();
  void finish(LineWindow& window, Scan& scan);

  Path path_;
  size_t window_bytes_;
  size_t max_line_bytes_;
  std::unique_ptr<ByteReader> reader_;
  std::string rest_;  // read, after the last window
  int64_t skip_ = 0;  // bytes to pass over before the first window
  int64_t offset_ = 0, row_ = 0;
  bool at_end_ = false;
  Cut cut_;
  std::vector<size_t> piece_ends_;  // of the window that is filled
};

}  // namespace tephra
