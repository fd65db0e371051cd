// SPDX-License-Identifier: Apache-2.0
// Documents of any format that is read, as JSON lines: what comes after need not know others.
#pragma once

#include <memory>

#include "tephra/io/byte_reader.h"

namespace tephra {

// By the ending of the name: .jsonl, .wet (also .warc.wet) and .warc, all with .gz and .zst, and
// .parquet.
bool is_document_file(const Path& path);
std::unique_ptr<ByteReader> open_documents(const Path& path);

// The name without the endings of its format and compression.
Path without_format(const Path& path);

// Base of formats that are converted: a line at a time.
class ConvertingReader : public ByteReader {
 public:
  std::map<std::string, int64_t> left_out() const final { return left_out_; }

 protected:
  // Appends a line or more, with their newlines; false at the end.
  virtual bool next_line(std::string& out) = 0;
  void leave_out(const char* reason) { ++left_out_[reason]; }

 private:
  size_t read_some(std::span<char> out) final;

  std::string lines_;
  size_t given_ = 0;
  std::map<std::string, int64_t> left_out_;
};

// The makers, one a file.
std::unique_ptr<ByteReader> open_wet(const Path& path);
std::unique_ptr<ByteReader> open_warc(const Path& path);
std::unique_ptr<ByteReader> open_parquet_documents(const Path& path);

// Appends ,"NAME":"VALUE" unless the value is empty; what is no UTF-8 in it becomes U+FFFD.
void append_text_field(std::string& out, std::string_view name, std::string_view value);

}  // namespace tephra
