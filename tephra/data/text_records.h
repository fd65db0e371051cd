// SPDX-License-Identifier: Apache-2.0
// Raw documents of text files, in order, in groups of bounded size.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/data/line_reader.h"
#include "tephra/data/tokenize.h"

namespace tephra {

// A line of .jsonl or of another format as such lines, or a document of .txt.
struct TextRecord {
  std::string text;
  int64_t line = 0;  // where it starts
  size_t file = 0;   // index
  bool json = false;
};

class TextRecords {
 public:
  TextRecords(std::span<const Path> files, TextSplit split) : files_(files), split_(split) {}

  // Goes on after so many records of a file, which are read once more.
  void skip_to(size_t file, int64_t records);

  // Records of about `bytes` together, at least one; none at the end.
  std::vector<TextRecord> next(size_t bytes);

  // What readers left out of those of the first `files` files that are read to their end.
  LeftOut left_out(size_t files) const;

  int64_t file_bytes() const { return done_bytes_ + (lines_ ? lines_->file_bytes() : 0); }

 private:
  bool next_record(TextRecord& record);
  bool open_next(TextRecord& record);
  bool next_paragraph(TextRecord& record);

  std::span<const Path> files_;
  TextSplit split_;
  size_t opened_ = 0;  // files so far
  bool json_ = false;
  std::unique_ptr<LineReader> lines_;   // of the open file
  int64_t done_bytes_ = 0;              // of the files before
  std::map<size_t, LeftOut> left_out_;  // by file
};

}  // namespace tephra
