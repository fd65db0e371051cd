// SPDX-License-Identifier: Apache-2.0
// The lines of a text file, compressed or not, one at a time in bounded memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tephra/io/byte_reader.h"

namespace tephra {

// Bytes of the mark that some programs write before a text in UTF-8; 0 without it.
inline size_t byte_order_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? 3 : 0;
}

// What a line that is too long is: Fault::data, or an empty one of which too_long() is true.
enum class LongLines { refuse, empty };

class LineReader {
 public:
  explicit LineReader(const Path& path, size_t max_line_bytes = size_t{1} << 30);
  // The lines of that reader; `path` is for messages.
  LineReader(const Path& path, std::unique_ptr<ByteReader> reader, size_t max_line_bytes,
             LongLines long_lines = LongLines::refuse);

  // Without its newline (or carriage return and newline); valid until the next call. False at the
  // end. A last line without newline counts.
  bool next(std::string_view& line);

  int64_t line_number() const { return line_number_; }  // of the last line, from 1
  bool too_long() const { return too_long_; }           // the last line was
  int64_t file_bytes() const { return reader_->file_bytes(); }
  const ByteReader& bytes() const { return *reader_; }
  std::string where() const;  // "corpus.jsonl:17"

 private:
  bool refill();
  void drop_if_long(size_t end);

  Path path_;
  size_t max_line_bytes_;
  LongLines long_lines_;
  bool too_long_ = false;
  std::unique_ptr<ByteReader> reader_;
  std::string buffer_;
  size_t begin_ = 0;    // of the line that comes next
  size_t scanned_ = 0;  // no newline before this
  int64_t line_number_ = 0;
};

// A whole file; longer than `max_bytes` is Fault::data.
std::string read_decompressed(const Path& path, size_t max_bytes);

}  // namespace tephra
