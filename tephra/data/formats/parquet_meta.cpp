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
constexpr size_t kMaxGroups = 64;     // within each other
constexpr size_t kMaxPath = 1 << 12;  // of their names: every column below holds them
enum Repetition : int64_t { required = 0, optional = 1, repeated = 2 };

// What a value means: older files say it by a number, newer ones by a structure, many by both.
namespace converted {
constexpr int64_t kUtf8 = 0, kMap = 1, kMapEntries = 2, kList = 3, kEnum = 4, kDecimal = 5,
                  kDate = 6, kTimeMillis = 7, kTimeMicros = 8, kTimestampMillis = 9,
                  kTimestampMicros = 10, kFirstUnsigned = 11, kLastUnsigned = 14, kJson = 19;
}
namespace logical {
constexpr int kString = 1, kMap = 2, kList = 3, kEnum = 4, kDecimal = 5, kDate = 6, kTime = 7,
              kTimestamp = 8, kInteger = 10, kJson = 12, kUuid = 14, kHalf = 15;
}

struct SchemaElement {
  std::string name;
  std::optional<int64_t> type;
  int64_t length = 0;
  int64_t repetition = required, children = 0;
  int64_t converted = -1, scale = 0;
  int logical = 0;
  int unit = 0;  // of times: 1 milliseconds, 2 microseconds, 3 nanoseconds
  bool is_unsigned = false;
};

void read_logical(ThriftReader& in, SchemaElement& element) {
  in.read_struct([&](int kind, int type) {
    if (type != ThriftReader::structure) return false;
    element.logical = kind;
    in.read_struct([&](int id, int of) {
      const bool time = kind == logical::kTime || kind == logical::kTimestamp;
      if (kind == logical::kDecimal && id == 1 && of == ThriftReader::i32) {
        element.scale = in.integer();
        return true;
      }
      if (kind == logical::kInteger && id == 2) element.is_unsigned = of == ThriftReader::no;
      if (!time || id != 2 || of != ThriftReader::structure) return false;
      in.read_struct([&](int unit, int) {
        element.unit = unit;
        return false;
      });
      return true;
    });
    return true;
  });
}

SchemaElement read_element(ThriftReader& in) {
  SchemaElement element;
  in.read_struct([&](int id, int type) {
    if (id == 1) element.type = in.integer();
    if (id == 2) element.length = in.integer();
    if (id == 3) element.repetition = in.integer();
    if (id == 4) element.name = in.text();
    if (id == 5) element.children = in.integer();
    if (id == 6) element.converted = in.integer();
    if (id == 7) element.scale = in.integer();
    if (id >= 1 && id <= 7) return true;
    if (id != 10 || type != ThriftReader::structure) return false;
    read_logical(in, element);
    return true;
  });
  return element;
}

ParquetMoment moment_of(const SchemaElement& element) {
  using enum ParquetMoment;
  constexpr ParquetMoment kTimes[] = {none, time_ms, time_us, time_ns};
  constexpr ParquetMoment kTimestamps[] = {none, timestamp_ms, timestamp_us, timestamp_ns};
  const size_t unit =
      element.unit >= 1 && element.unit <= 3 ? static_cast<size_t>(element.unit) : 0;
  if (element.logical == logical::kDate || element.converted == converted::kDate) return days;
  if (element.logical == logical::kTime) return kTimes[unit];
  if (element.logical == logical::kTimestamp) return kTimestamps[unit];
  if (element.converted == converted::kTimeMillis) return time_ms;
  if (element.converted == converted::kTimeMicros) return time_us;
  if (element.converted == converted::kTimestampMillis) return timestamp_ms;
  if (element.converted == converted::kTimestampMicros) return timestamp_us;
  return none;
}

// Reads the list of elements as the tree it means.
class SchemaReader {
 public:
  SchemaReader(const std::vector<SchemaElement>& schema, const std::string& where,
               ParquetMeta& meta)
      : schema_(schema), where_(where), meta_(meta) {}

  void read() {
    require_data(!schema_.empty() && schema_[0].children >= 0, "{}: has no schema", where_);
    for (int64_t i = 0; i < schema_[0].children; ++i) meta_.fields.push_back(field({}));
    require_data(at_ == schema_.size(), "{}: its schema is damaged", where_);
  }

 private:
  // Where a field lies.
  struct Place {
    std::string path;  // names of the groups above it, each with a dot
    int definition = 0, repetition = 0;
    size_t depth = 0;

    Place below(const SchemaElement& group) const {
      return {path + group.name + ".", definition + (group.repetition != required),
              repetition + (group.repetition == repeated), depth + 1};
    }
  };

  const SchemaElement& next() {
    require_data(at_ < schema_.size(), "{}: its schema is damaged", where_);
    const SchemaElement& element = schema_[at_++];
    require_data(
        element.repetition >= required && element.repetition <= repeated && element.children >= 0,
        "{}: its schema is damaged", where_);
    return element;
  }

  ParquetField field(const Place& place) {
    require_data(place.depth < kMaxGroups && place.path.size() <= kMaxPath,
                 "{}: its schema is nested too deeply", where_);
    const SchemaElement& element = next();
    if (element.repetition == repeated) return list_of(element, element, place);
    const bool carries_list =
        element.logical == logical::kList || element.logical == logical::kMap ||
        element.converted == converted::kList || element.converted == converted::kMap ||
        element.converted == converted::kMapEntries;
    if (carries_list && element.children == 1 && at_ < schema_.size() &&
        schema_[at_].repetition == repeated) {
      const SchemaElement& inner = next();
      return list_of(inner, element, place.below(element));
    }
    return value(element, place);
  }

  // Of a repeated field; `named` is it or the group that carries it, `place` is where it lies.
  ParquetField list_of(const SchemaElement& inner, const SchemaElement& named, const Place& place) {
    ParquetField list;
    list.kind = ParquetField::Kind::list;
    list.name = named.name;
    list.definition = place.definition;
    list.repetition = place.repetition + 1;
    list.first_leaf = meta_.columns.size();
    // The element is the only field of the repeated group, but in files of old writers, whose
    // names tell.
    const bool wrapped = &inner != &named && inner.children == 1 && inner.name != "array" &&
                         inner.name != named.name + "_tuple";
    list.fields.push_back(wrapped ? field(place.below(inner)) : value(inner, place));
    list.end_leaf = meta_.columns.size();
    return list;
  }

  // A group or a leaf, whose repetition is somebody else's matter.
  ParquetField value(const SchemaElement& element, const Place& place) {
    const Place inside = place.below(element);
    ParquetField field;
    field.name = element.name;
    field.definition = inside.definition;
    field.first_leaf = meta_.columns.size();
    if (element.children > 0) {
      field.kind = ParquetField::Kind::group;
      for (int64_t i = 0; i < element.children; ++i) {
        field.fields.push_back(this->field(inside));
      }
    } else {
      add_column(element, place.path, inside);
    }
    field.end_leaf = meta_.columns.size();
    return field;
  }

  void add_column(const SchemaElement& element, const std::string& path, const Place& inside) {
    require_data(element.type && *element.type >= 0 && *element.type <= 7,
                 "{}: column {} has no known type", where_, element.name);
    ParquetColumn column{path + element.name, static_cast<ParquetType>(*element.type),
                         inside.definition, inside.repetition};
    const auto means = [&](int logical, int64_t converted) {
      return element.logical == logical || element.converted == converted;
    };
    column.length = column.type == ParquetType::i96 ? 12 : element.length;
    const bool bytes = column.type == ParquetType::bytes;
    column.json = bytes && means(logical::kJson, converted::kJson);
    column.text = bytes && (column.json || means(logical::kString, converted::kUtf8) ||
                            means(logical::kEnum, converted::kEnum));
    column.moment = moment_of(element);
    column.is_unsigned = element.is_unsigned || (element.converted >= converted::kFirstUnsigned &&
                                                 element.converted <= converted::kLastUnsigned);
    column.decimal = means(logical::kDecimal, converted::kDecimal);
    if (column.decimal) column.scale = element.scale;
    const bool fixed = column.type == ParquetType::fixed;
    column.uuid = fixed && element.logical == logical::kUuid && column.length == 16;
    column.half = fixed && element.logical == logical::kHalf && column.length == 2;
    require_data(column.scale >= 0 && column.scale <= 100 && column.length >= 0 &&
                     column.length <= (1 << 20) && (!fixed || column.length > 0),
                 "{}: column {} has no known scale or length", where_, element.name);
    meta_.columns.push_back(std::move(column));
  }

  const std::vector<SchemaElement>& schema_;
  const std::string& where_;
  ParquetMeta& meta_;
  size_t at_ = 1;
};

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
    case 4:
      chunk.codec = PageCodec::brotli;
      break;
    case 6:
      chunk.codec = PageCodec::zstd;
      break;
    case 7:
      chunk.codec = PageCodec::lz4_raw;
      break;
    default:
      chunk.unsupported = codec == 3   ? "LZO"
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
  require_data(meta.rows == 0 || !meta.columns.empty(), "{}: has rows without columns", where);
  for (const ParquetRowGroup& group : meta.groups) {
    require_data(group.chunks.size() == meta.columns.size(),
                 "{}: expected {} columns in each row group, got {}", where, meta.columns.size(),
                 group.chunks.size());
    require_data(group.rows >= 0 && group.rows <= meta.rows, "{}: its counts of rows are damaged",
                 where);
    rows += group.rows;
    for (size_t c = 0; c < group.chunks.size(); ++c) {
      const ParquetChunk& chunk = group.chunks[c];
      const bool flat = meta.columns[c].max_repetition == 0;
      require_data(flat ? chunk.values == group.rows : chunk.values >= group.rows,
                   "{}: column {}: expected {} values, got {}", where, meta.columns[c].name,
                   group.rows, chunk.values);
      require_data(chunk.offset >= 4 && chunk.bytes >= 0 && chunk.bytes <= file_bytes &&
                       chunk.offset <= file_bytes - chunk.bytes,
                   "{}: a column lies outside the file; it is cut off or damaged", where);
    }
  }
  require_data(rows == meta.rows, "{}: expected {} rows, its row groups have {}", where, meta.rows,
               rows);
}

}  // namespace

std::string_view parquet_type_name(ParquetType type) {
  constexpr std::string_view kNames[] = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                         "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"};
  return kNames[static_cast<size_t>(type)];
}

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
  SchemaReader(schema, where, meta).read();
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
      } else if (id == 5 && (field == 3 || field == 4)) {
        (field == 3 ? header.definition_encoding : header.repetition_encoding) = in.integer();
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
