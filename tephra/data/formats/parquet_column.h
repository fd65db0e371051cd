// SPDX-License-Identifier: Apache-2.0
// The values of one column of a Parquet row group, page by page.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tephra/base/raw_bytes.h"
#include "tephra/data/formats/parquet_meta.h"

namespace tephra {

class ParquetColumnReader {
 public:
  ParquetColumnReader(const FileReader& file, const ParquetColumn& column,
                      const ParquetChunk& chunk);

  // Appends the next value as JSON, or false when there is none. Fault::data at the end of the
  // column.
  bool append_next(std::string& out);
  // Of a column whose bytes are JSON: as they are, but on one line.
  bool append_next_raw(std::string& out);
  void pass() { next_is_defined(); }

  // The next value of a column of strings as it is stored, valid until the next call; nothing when
  // it is null.
  std::optional<std::string_view> next_string();

  // Levels of what comes next, which say where in a nested field it stands (ParquetField).
  int definition();
  int repetition();  // 0 at the end, too

  // After the last row. Fault::data when there are more values than were asked for.
  void check_end() const;

 private:
  bool load_page();
  bool has_next() { return entry_ < entries_ || load_page(); }
  bool next_is_defined();
  void load_dictionary(const ParquetPageHeader& header, std::string_view packed);
  void load_data(const ParquetPageHeader& header, std::string_view packed);
  std::string_view take_levels(std::string_view& bytes, int64_t encoding) const;
  void load_levels(std::string_view bytes, int highest, std::vector<uint32_t>& levels) const;
  void load_values(std::string_view bytes, int64_t encoding, size_t count);
  void load_numbers(std::string_view bytes, int64_t encoding, size_t count);
  void load_fixed(std::string_view bytes, int64_t encoding, size_t count);
  std::string_view text_at(size_t at) const;
  void append_value(std::string& out, size_t at) const;
  void append_bytes(std::string& out, std::string_view bytes) const;

  const FileReader& file_;
  const ParquetColumn& column_;
  const ParquetChunk& chunk_;
  std::string where_;
  int64_t at_ = 0, end_ = 0;  // in the file
  int64_t left_ = 0;          // entries of pages that are still to come
  RawBytes packed_, page_, dictionary_page_;
  std::string held_;
  std::vector<std::string_view> strings_, dictionary_strings_;
  std::vector<int64_t> numbers_, dictionary_numbers_;  // bits, of floating-point types too
  std::vector<uint32_t> indices_, definitions_, repetitions_;
  bool by_index_ = false;
  size_t entries_ = 0, entry_ = 0;  // of the page, values or none
  size_t value_ = 0;                // those that are not null
};

}  // namespace tephra
