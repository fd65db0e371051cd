// SPDX-License-Identifier: Apache-2.0
// The records of a WARC file (ISO 28500), compressed or not, one after another in bounded memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tephra/io/byte_reader.h"

namespace tephra {

struct WarcHeader {
  std::string type, url, date, truncated;
  size_t length = 0;  // of the body
};

// Whether they are the same but for ASCII case; the second one has no capitals.
bool same_name(std::string_view a, std::string_view lower);

// Under which reason a record that gives no document is counted; null for those that never hold
// one.
const char* left_out_record(std::string_view type);

class WarcRecords {
 public:
  explicit WarcRecords(const Path& path) : path_(path), bytes_(ByteReader::open(path)) {}

  // The next header; false at the end of the file. Then its body, once, by one of the others.
  bool next(WarcHeader& header);
  std::string_view body(const WarcHeader& header);  // valid until the next call
  void skip_body(const WarcHeader& header);

  std::string where() const;  // file and number of the record
  int64_t file_bytes() const { return bytes_->file_bytes(); }

 private:
  bool more();
  std::string_view line();
  void take_field(std::string_view name, std::string_view value, WarcHeader& header, bool& sized);

  Path path_;
  std::unique_ptr<ByteReader> bytes_;
  std::string buffer_;
  size_t at_ = 0;
  int64_t records_ = 0;
};

}  // namespace tephra
