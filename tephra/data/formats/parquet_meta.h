// SPDX-License-Identifier: Apache-2.0
// What the footer of a Parquet file says: its columns and where their pages lie.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/io/page_codec.h"

namespace tephra {

enum class ParquetType {
  boolean = 0,
  i32 = 1,
  i64 = 2,
  i96 = 3,
  f32 = 4,
  f64 = 5,
  bytes = 6,
  fixed = 7
};

// What an integer counts, of a column of dates or times.
enum class ParquetMoment {
  none,
  days,
  time_ms,
  time_us,
  time_ns,
  timestamp_ms,
  timestamp_us,
  timestamp_ns
};

struct ParquetColumn {
  std::string name;  // of one below groups, with theirs: "quality.list.element"
  ParquetType type = ParquetType::bytes;
  // How deep its values lie: levels of fields that may be null or repeated, and of repeated ones.
  int max_definition = 0, max_repetition = 0;
  int64_t length = 0;  // of the values of fixed and i96
  bool json = false;   // bytes that are JSON
  bool text = false;   // bytes that are UTF-8, or should be
  bool is_unsigned = false;
  bool decimal = false;
  bool uuid = false;
  bool half = false;  // two bytes that are a float
  ParquetMoment moment = ParquetMoment::none;
  int64_t scale = 0;  // digits after the point of a decimal

  bool is_bytes() const {
    return type == ParquetType::bytes || type == ParquetType::fixed || type == ParquetType::i96;
  }
};

// "fixed" and so on, for messages.
std::string_view parquet_type_name(ParquetType type);

// A field as people mean it: the groups that only carry a list are gone.
struct ParquetField {
  enum class Kind { leaf, group, list };

  Kind kind = Kind::leaf;
  std::string name;
  int definition = 0;                   // level from which on it is not null
  int repetition = 0;                   // of a list: level at which its next element begins
  size_t first_leaf = 0, end_leaf = 0;  // of its columns
  std::vector<ParquetField> fields;     // of a group; of a list one, its element
};

struct ParquetChunk {
  int64_t offset = 0;  // of its first page
  int64_t bytes = 0;
  int64_t values = 0;
  PageCodec codec = PageCodec::none;
  std::string unsupported;  // the codec's name, when it is not one of ours
};

struct ParquetRowGroup {
  int64_t rows = 0;
  std::vector<ParquetChunk> chunks;  // of each leaf column
};

struct ParquetMeta {
  std::vector<ParquetColumn> columns;  // leaves
  std::vector<ParquetField> fields;    // of a row, made of them
  std::vector<ParquetRowGroup> groups;
  int64_t rows = 0;
  bool documents = false;  // written by ParquetWriter: no value means no field
};

// Checks that everything lies within the file. Fault::data.
ParquetMeta read_parquet_meta(const FileReader& file);

enum class ParquetPage { data, index, dictionary, data_v2 };

inline constexpr int64_t kRleLevels = 3;  // the encoding of levels; an older one is long given up

struct ParquetPageHeader {
  ParquetPage page = ParquetPage::data;
  int64_t bytes = 0, packed_bytes = 0;  // without the header
  int64_t values = 0;
  int64_t encoding = 0;
  int64_t definition_encoding = kRleLevels, repetition_encoding = kRleLevels;
  int64_t definition_bytes = 0, repetition_bytes = 0;  // of version 2
  bool compressed = true;                              // of version 2
  size_t header_bytes = 0;
};

ParquetPageHeader read_page_header(std::string_view bytes, const std::string& where);

}  // namespace tephra
