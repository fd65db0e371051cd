// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/parquet_meta.h"

#include <cstring>

#include "tephra/base/error.h"
#include "tephra/data/formats/document_columns.h"
#include "tephra/data/formats/thrift.h"

namespace tephra {
namespace {

constexpr std::string_view kParquetMagic = "PAR1";
constexpr int64_t kTailBytes = 8;  // size of the footer, magic
constexpr int64_t kMaxFooter = int64_t{1} << 30;
// Parquet's numbers for what a value means.
constexpr int64_t kUtf8 = 0, kEnum = 4, kDecimal = 5, kDate = 6, kTimestampMicros = 10,
                  kFirstUnsigned = 11, kLastUnsigned = 14, kJsonText = 19;

struct SchemaElement {
  std::string name;
  std::optional<int64_t> type;
  int64_t repetition = 0, children = 0;
  int64_t converted = -1, scale = 0;
};

SchemaElement read_element(ThriftReader& in) {
  SchemaElement element;
  in.read_struct([&](int id, int) {
    if (id == 1) element.type = in.integer();
    if (id == 3) element.repetition = in.integer();
    if (id == 4) element.name = in.text();
    if (id == 5) element.children = in.integer();
    if (id == 6) element.converted = in.integer();
    if (id == 7) element.scale = in.integer();
    return id == 1 || (id >= 3 && id <= 7);
  });
  return element;
}

// Leaves of the tree, in order. Those below a group, or repeated, are not supported.
std::vector<ParquetColumn> leaves(const std::vector<SchemaElement>& schema,
                                  const std::string& where) {
  require_data(!schema.empty() && schema[0].children >= 0, "{}: has no schema", where);
  std::vector<ParquetColumn> columns;
  std::vector<int64_t> open = {schema[0].children};  // children that are still to come
  std::vector<std::string> groups;                   // their names, but the root's
  for (size_t i = 1; i < schema.size(); ++i) {
    while (!open.empty() && open.back() == 0) {
      open.pop_back();
      if (!groups.empty()) groups.pop_back();
    }
    require_data(!open.empty(), "{}: its schema is damaged", where);
    --open.back();
    const SchemaElement& element = schema[i];
    if (element.children > 0) {
      require_data(open.size() < 64, "{}: its schema is nested too deeply", where);
      open.push_back(element.children);
      groups.push_back(element.name);
      continue;
    }
    require_data(element.type && *element.type >= 0 && *element.type <= 7,
                 "{}: column {} has no known type", where, element.name);
    std::string name;
    for (const std::string& group : groups) name += group + ".";
    ParquetColumn column{name + element.name, static_cast<ParquetType>(*element.type),
                         element.repetition == 1, true};
    column.supported = open.size() == 1 && element.repetition != 2 &&
                       column.type != ParquetType::i96 && column.type != ParquetType::fixed;
    column.json = column.type == ParquetType::bytes && element.converted == kJsonText;
    column.text = element.converted == kUtf8 || element.converted == kEnum || column.json;
    if (element.converted >= kDate && element.converted <= kTimestampMicros) {
      column.moment = static_cast<ParquetMoment>(element.converted - kDate + 1);
    }
    column.is_unsigned = element.converted >= kFirstUnsigned && element.converted <= kLastUnsigned;
    if (element.converted == kDecimal) column.scale = element.scale;
    require_data(column.scale >= 0 && column.scale <= 38, "{}: column {} has no known scale", where,
                 element.name);
    columns.push_back(column);
  }
  return columns;
}

void set_codec(ParquetChunk& chunk, int64_t codec) {
  switch (codec) {
    case 0:
      chunk.codec = PageCodec::none;
      break;
    case 1:
      chunk.codec = PageCodec::snappy;
      break;
    case 2:
      chunk.codec = PageCodec::gzip;
      break;
    case 6:
      chunk.codec = PageCodec::zstd;
      break;
    case 7:
      chunk.codec = PageCodec::lz4_raw;
      break;
    default:
      chunk.unsupported = codec == 3   ? "LZO"
                          : codec == 4 ? "Brotli"
                          : codec == 5 ? "LZ4 with Hadoop's framing"
                                       : format("codec {}", codec);
  }
}

ParquetChunk read_chunk(ThriftReader& in) {
  ParquetChunk chunk;
  int64_t data = -1, dictionary = -1;
  in.read_struct([&](int id, int) {
    if (id != 3) return false;
    in.read_struct([&](int field, int) {
      if (field == 4) set_codec(chunk, in.integer());
      if (field == 5) chunk.values = in.integer();
      if (field == 7) chunk.bytes = in.integer();
      if (field == 9) data = in.integer();
      if (field == 11) dictionary = in.integer();
      return field == 4 || field == 5 || field == 7 || field == 9 || field == 11;
    });
    return true;
  });
  chunk.offset = dictionary > 0 && dictionary < data ? dictionary : data;
  return chunk;
}

ParquetRowGroup read_group(ThriftReader& in) {
  ParquetRowGroup group;
  in.read_struct([&](int id, int) {
    if (id == 1) in.read_list([&](int) { group.chunks.push_back(read_chunk(in)); });
    if (id == 3) group.rows = in.integer();
    return id == 1 || id == 3;
  });
  return group;
}

// A key of the file's metadata with its value.
bool read_documents_key(ThriftReader& in) {
  std::string_view key, value;
  in.read_struct([&](int id, int) {
    if (id == 1) key = in.text();
    if (id == 2) value = in.text();
    return id == 1 || id == 2;
  });
  return key == kDocumentsKey && value == kDocumentsVersion;
}

void check(const ParquetMeta& meta, int64_t file_bytes, const std::string& where) {
  int64_t rows = 0;
  for (const ParquetRowGroup& group : meta.groups) {
    require_data(group.chunks.size() == meta.columns.size(),
                 "{}: expected {} columns in each row group, got {}", where, meta.columns.size(),
                 group.chunks.size());
    require_data(group.rows >= 0 && group.rows <= meta.rows, "{}: its counts of rows are damaged",
                 where);
    rows += group.rows;
    for (const ParquetChunk& chunk : group.chunks) {
      require_data(chunk.offset >= 4 && chunk.bytes >= 0 && chunk.bytes <= file_bytes &&
                       chunk.offset <= file_bytes - chunk.bytes,
                   "{}: a column lies outside the file; it is cut off or damaged", where);
    }
  }
  require_data(rows == meta.rows, "{}: expected {} rows, its row groups have {}", where, meta.rows,
               rows);
}

}  // namespace

ParquetMeta read_parquet_meta(const FileReader& file) {
  const std::string where = file.path().string();
  require_data(file.size() >= 12, "{}: is too short for a Parquet file", where);
  std::string tail(kTailBytes, '\0');
  file.read(file.size() - kTailBytes, std::as_writable_bytes(std::span(tail)));
  require_data(std::string_view(tail).substr(4) == kParquetMagic,
               "{}: does not end as a Parquet file does; it is cut off or of another kind", where);
  uint32_t size = 0;
  std::memcpy(&size, tail.data(), 4);
  require_data(size <= kMaxFooter && int64_t{size} + kTailBytes + 4 <= file.size(),
               "{}: its footer is damaged", where);
  std::string footer(size, '\0');
  file.read(file.size() - kTailBytes - size, std::as_writable_bytes(std::span(footer)));
  ThriftReader in(footer, where);
  ParquetMeta meta;
  std::vector<SchemaElement> schema;
  in.read_struct([&](int id, int) {
    if (id == 2) in.read_list([&](int) { schema.push_back(read_element(in)); });
    if (id == 3) meta.rows = in.integer();
    if (id == 4) in.read_list([&](int) { meta.groups.push_back(read_group(in)); });
    if (id == 5) in.read_list([&](int) { meta.documents |= read_documents_key(in); });
    return id >= 2 && id <= 5;
  });
  meta.columns = leaves(schema, where);
  check(meta, file.size(), where);
  return meta;
}

ParquetPageHeader read_page_header(std::string_view bytes, const std::string& where) {
  ThriftReader in(bytes, where);
  ParquetPageHeader header;
  int64_t kind = -1;
  in.read_struct([&](int id, int) {
    if (id == 1) kind = in.integer();
    if (id == 2) header.bytes = in.integer();
    if (id == 3) header.packed_bytes = in.integer();
    if (id <= 3) return true;
    if (id != 5 && id != 7 && id != 8) return false;
    const bool v2 = id == 8;
    in.read_struct([&](int field, int type) {
      if (field == 1) {
        header.values = in.integer();
      } else if (field == (v2 ? 4 : 2)) {
        header.encoding = in.integer();
      } else if (v2 && field == 5) {
        header.definition_bytes = in.integer();
      } else if (v2 && field == 6) {
        header.repetition_bytes = in.integer();
      } else if (v2 && field == 7) {
        header.compressed = type == ThriftReader::yes;
      } else {
        return false;
      }
      return true;
    });
    return true;
  });
  require_data(kind >= 0 && kind <= 3 && header.bytes >= 0 && header.packed_bytes >= 0 &&
                   header.values >= 0 && header.definition_bytes >= 0 &&
                   header.repetition_bytes >= 0 &&
                   header.definition_bytes + header.repetition_bytes <= header.packed_bytes,
               "{}: the header of a page is damaged", where);
  header.page = static_cast<ParquetPage>(kind);
  header.header_bytes = in.position();
  return header;
}

}  // namespace tephra
