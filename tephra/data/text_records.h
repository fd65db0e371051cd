// SPDX-License-Identifier: Apache-2.0
// Raw documents of text files, in order, in groups of bounded size.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tephra/base/error.h"
#include "tephra/data/line_reader.h"
#include "tephra/data/tokenize.h"

namespace tephra {

using LeftOut = std::map<std::string, int64_t>;  // records that are no documents, by reason

// A line of .jsonl or of another format as such lines, or a document of .txt.
struct TextRecord {
  std::string text;
  int64_t line = 0;  // where it starts
  size_t file = 0;   // index
  bool json = false;
  // Of what could not be read: which of counted:: it is. `text` then says what is wrong.
  const char* trouble = nullptr;
};

// Damage ends a file: a record that tells of it comes after the whole ones before it.
class TextRecords {
 public:
  TextRecords(std::span<const Path> files, TextSplit split, size_t max_document_bytes)
      : files_(files), split_(split), max_document_bytes_(max_document_bytes) {}

  // Goes on after so many records of a file, which are read once more.
  void skip_to(size_t file, int64_t records);

  // Records of about `bytes` together, at least one; none at the end.
  std::vector<TextRecord> next(size_t bytes);

  // What readers left out of those of the first `files` files that are read to their end; of each
  // it is told once.
  LeftOut take_left_out(size_t files);

  int64_t file_bytes() const { return done_bytes_ + (lines_ ? lines_->file_bytes() : 0); }

 private:
  bool next_record(TextRecord& record);
  bool next_of_file(TextRecord& record);
  bool next_line(TextRecord& record);
  bool next_paragraph(TextRecord& record);
  bool open_next(TextRecord& record);
  void close_file();
  TextRecord damaged(const Error& error) const;
  void too_long(TextRecord& record) const;

  std::span<const Path> files_;
  TextSplit split_;
  size_t max_document_bytes_;
  size_t opened_ = 0;  // files so far
  bool json_ = false;
  std::unique_ptr<LineReader> lines_;   // of the open file
  int64_t done_bytes_ = 0;              // of the files before
  std::map<size_t, LeftOut> left_out_;  // by file
};

}  // namespace tephra
