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
enum class ParquetMoment { none, days, time_ms, time_us, timestamp_ms, timestamp_us };

struct ParquetColumn {
  std::string name;  // of one below groups, with theirs: "quality.list.element"
  ParquetType type = ParquetType::bytes;
  bool optional = false;
  bool supported = true;  // flat, and of a type that JSON has
  bool json = false;      // bytes that are JSON
  bool text = false;      // bytes that are UTF-8, or should be
  bool is_unsigned = false;
  ParquetMoment moment = ParquetMoment::none;
  int64_t scale = 0;  // digits after the point of a decimal that is stored as an integer
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
  std::vector<ParquetRowGroup> groups;
  int64_t rows = 0;
  bool documents = false;  // written by ParquetWriter: no value means no field
};

// Checks that everything lies within the file. Fault::data.
ParquetMeta read_parquet_meta(const FileReader& file);

enum class ParquetPage { data, index, dictionary, data_v2 };

struct ParquetPageHeader {
  ParquetPage page = ParquetPage::data;
  int64_t bytes = 0, packed_bytes = 0;  // without the header
  int64_t values = 0;
  int64_t encoding = 0;
  int64_t definition_bytes = 0, repetition_bytes = 0;  // of version 2
  bool compressed = true;                              // of version 2
  size_t header_bytes = 0;
};

ParquetPageHeader read_page_header(std::string_view bytes, const std::string& where);

}  // namespace tephra
