// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/parquet_writer.h"

#include "tephra/base/error.h"
#include "tephra/data/formats/parquet_meta.h"
#include "tephra/data/formats/thrift_writer.h"

namespace tephra {
namespace {

constexpr std::string_view kFileMagic = "PAR1";
constexpr size_t kLinePadding = 64;  // that the parser may read

// Parquet's numbers for things.
constexpr int64_t kOptional = 1, kRepeated = 2, kConvertedUtf8 = 0, kConvertedList = 3,
                  kConvertedJson = 19, kPlainEncoding = 0, kRleEncoding = 3, kZstdCodec = 6;
constexpr int kLogicalString = 1, kLogicalList = 3, kLogicalJson = 12;
// The names that the format asks for within a list.
constexpr const char* kListGroup = "list";
constexpr const char* kListElement = "element";

ParquetType stored_type(ColumnType type) {
  switch (type) {
    case ColumnType::boolean:
      return ParquetType::boolean;
    case ColumnType::integer:
      return ParquetType::i64;
    case ColumnType::real:
      return ParquetType::f64;
    case ColumnType::string:
    case ColumnType::json:
      return ParquetType::bytes;
  }
  return ParquetType::bytes;
}

std::vector<int64_t> integers(const Json& json, size_t count, const std::string& where) {
  std::vector<int64_t> values;
  if (json.is_array()) {
    for (const Json& value : json.array()) values.push_back(value.is_int() ? value.integer() : -1);
  }
  require_data(values.size() == count, "{}: expected {} integers", where, count);
  return values;
}

void append_group_element(ThriftWriter& out, std::string_view name, int64_t repetition,
                          bool is_list) {
  out.begin_struct();
  out.integer(3, repetition);
  out.text(4, name);
  out.integer(5, 1);  // children
  if (is_list) {
    out.integer(6, kConvertedList);
    out.begin_struct(10);
    out.begin_struct(kLogicalList);
    out.end_struct();
    out.end_struct();
  }
  out.end_struct();
}

void append_leaf_element(ThriftWriter& out, std::string_view name, ColumnType type) {
  const bool json = type == ColumnType::json;
  out.begin_struct();
  out.integer(1, static_cast<int64_t>(stored_type(type)));
  out.integer(3, kOptional);
  out.text(4, name);
  if (json || type == ColumnType::string) {
    out.integer(6, json ? kConvertedJson : kConvertedUtf8);
    out.begin_struct(10);
    out.begin_struct(json ? kLogicalJson : kLogicalString);
    out.end_struct();
    out.end_struct();
  }
  out.end_struct();
}

void append_schema(ThriftWriter& out, const std::vector<DocumentColumn>& columns) {
  size_t elements = 1;
  for (const DocumentColumn& column : columns) elements += column.list ? 3 : 1;
  out.begin_list(2, ThriftReader::structure, elements);
  out.begin_struct();
  out.text(4, "documents");
  out.integer(5, static_cast<int64_t>(columns.size()));
  out.end_struct();
  for (const DocumentColumn& column : columns) {
    if (column.list) {
      append_group_element(out, column.name, kOptional, true);
      append_group_element(out, kListGroup, kRepeated, false);
    }
    append_leaf_element(out, column.list ? kListElement : column.name, column.type);
  }
}

void append_path(ThriftWriter& out, const DocumentColumn& column) {
  out.begin_list(3, ThriftReader::binary, column.list ? 3 : 1);
  out.text_element(column.name);
  if (!column.list) return;
  out.text_element(kListGroup);
  out.text_element(kListElement);
}

}  // namespace

ParquetWriter::ParquetWriter(int level, const Json& state, const std::string& where)
    : level_(level) {
  if (state.is_null()) return;
  const Fields fields(state, where);
  offset_ = fields.integer("offset");
  for (const Json& column : fields.array("columns")) {
    const Fields of(column, where);
    const std::string type = of.string("type");
    const auto known = column_of_type(of.string("name"), type);
    require_data(known.has_value(), "{}: expected the type of a column, got '{}'", where, type);
    columns_.push_back(*known);
  }
  for (const Json& each : fields.array("groups")) {
    const std::vector<int64_t> numbers = integers(each, 1 + 5 * columns_.size(), where);
    Group group{numbers[0], {}};
    for (size_t i = 1; i < numbers.size(); i += 5) {
      group.chunks.push_back(
          {numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3], numbers[i + 4]});
    }
    groups_.push_back(std::move(group));
  }
}

Json ParquetWriter::state() const {
  Json state, columns = Json::Array{}, groups = Json::Array{};
  for (const DocumentColumn& column : columns_) {
    Json of;
    of["name"] = column.name;
    of["type"] = column_type_name(column);
    columns.push_back(std::move(of));
  }
  for (const Group& group : groups_) {
    Json numbers = Json::Array{};
    numbers.push_back(group.rows);
    for (const Chunk& chunk : group.chunks) {
      for (const int64_t n :
           {chunk.offset, chunk.bytes, chunk.unpacked_bytes, chunk.entries, chunk.nulls}) {
        numbers.push_back(n);
      }
    }
    groups.push_back(std::move(numbers));
  }
  state["offset"] = offset_;
  state["columns"] = std::move(columns);
  state["groups"] = std::move(groups);
  return state;
}

void ParquetWriter::begin(std::string& out) {
  if (offset_ > 0) return;
  out += kFileMagic;
  offset_ = static_cast<int64_t>(kFileMagic.size());
}

void ParquetWriter::choose_columns(std::string& lines) {
  if (!columns_.empty() || lines.empty()) return;
  lines.reserve(lines.size() + kLinePadding);
  SeenFields seen;
  seen.add_lines(lines);
  columns_ = seen.columns();
}

DocumentPages ParquetWriter::pages_of(std::string& lines) const {
  lines.reserve(lines.size() + kLinePadding);
  return make_pages(lines, columns_, level_);
}

void ParquetWriter::add_group(const DocumentPages& pages, std::string& out) {
  if (pages.rows == 0) return;
  begin(out);
  Group group{pages.rows, {}};
  for (const ColumnPages& column : pages.columns) {
    const auto bytes = static_cast<int64_t>(column.bytes.size());
    group.chunks.push_back({offset_, bytes, column.unpacked_bytes, column.entries, column.nulls});
    out += column.bytes;
    offset_ += bytes;
  }
  groups_.push_back(std::move(group));
}

void ParquetWriter::append_footer(std::string& out) const {
  ThriftWriter thrift(out);
  int64_t rows = 0;
  for (const Group& group : groups_) rows += group.rows;
  thrift.begin_struct();
  thrift.integer(1, 1);  // version
  append_schema(thrift, columns_);
  thrift.integer(3, rows, ThriftReader::i64);
  thrift.begin_list(4, ThriftReader::structure, groups_.size());
  for (const Group& group : groups_) {
    int64_t unpacked = 0, bytes = 0;
    thrift.begin_struct();
    thrift.begin_list(1, ThriftReader::structure, columns_.size());
    for (size_t c = 0; c < columns_.size(); ++c) {
      const Chunk& chunk = group.chunks[c];
      unpacked += chunk.unpacked_bytes;
      bytes += chunk.bytes;
      thrift.begin_struct();
      thrift.integer(2, chunk.offset, ThriftReader::i64);
      thrift.begin_struct(3);
      thrift.integer(1, static_cast<int64_t>(stored_type(columns_[c].type)));
      thrift.begin_list(2, ThriftReader::i32, 2);
      thrift.integer_element(kPlainEncoding);
      thrift.integer_element(kRleEncoding);
      append_path(thrift, columns_[c]);
      thrift.integer(4, kZstdCodec);
      thrift.integer(5, chunk.entries, ThriftReader::i64);
      thrift.integer(6, chunk.unpacked_bytes, ThriftReader::i64);
      thrift.integer(7, chunk.bytes, ThriftReader::i64);
      thrift.integer(9, chunk.offset, ThriftReader::i64);
      thrift.begin_struct(12);
      thrift.integer(3, chunk.nulls, ThriftReader::i64);
      thrift.end_struct();
      thrift.end_struct();
      thrift.end_struct();
    }
    thrift.integer(2, unpacked, ThriftReader::i64);
    thrift.integer(3, group.rows, ThriftReader::i64);
    thrift.integer(5, group.chunks.front().offset, ThriftReader::i64);
    thrift.integer(6, bytes, ThriftReader::i64);
    thrift.end_struct();
  }
  thrift.begin_list(5, ThriftReader::structure, 1);
  thrift.begin_struct();
  thrift.text(1, kDocumentsKey);
  thrift.text(2, kDocumentsVersion);
  thrift.end_struct();
  thrift.text(6, "tephra version " TEPHRA_VERSION);
  thrift.end_struct();
}

void ParquetWriter::finish(std::string& out) {
  begin(out);
  if (columns_.empty()) columns_ = SeenFields().columns();
  const size_t before = out.size();
  append_footer(out);
  const auto size = static_cast<uint32_t>(out.size() - before);
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out += kFileMagic;
}

}  // namespace tephra
