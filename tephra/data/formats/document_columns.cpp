// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/document_columns.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/thrift_writer.h"
#include "tephra/data/json_line.h"
#include "tephra/io/zstd_frame.h"

namespace tephra {
namespace {

constexpr size_t kPageBytes = size_t{1} << 20;  // of values; a longer value is a page of its own
constexpr size_t kMaxColumns = 256;
constexpr size_t kMaxNameBytes = 1024;
constexpr int64_t kExactIntegers = int64_t{1} << 53;  // of a double

// Bits of the kinds of values that were seen.
constexpr uint8_t kBoolean = 1, kInteger = 2, kReal = 4, kString = 8, kNested = 16;

uint8_t seen_kind(JsonField::Kind kind) {
  switch (kind) {
    case JsonField::Kind::null:
      return 0;
    case JsonField::Kind::boolean:
      return kBoolean;
    case JsonField::Kind::integer:
      return kInteger;
    case JsonField::Kind::real:
      return kReal;
    case JsonField::Kind::string:
      return kString;
    case JsonField::Kind::json:
      return kNested;
  }
  return kNested;
}

ColumnType type_of(uint8_t kinds) {
  switch (kinds) {
    case kBoolean:
      return ColumnType::boolean;
    case kInteger:
      return ColumnType::integer;
    case kReal:
    case kReal | kInteger:
      return ColumnType::real;
    case kString:
      return ColumnType::string;
    default:
      return ColumnType::json;
  }
}

// Calls `use` with each line.
template <class Use>
void each_line(std::string_view lines, const Use& use) {
  for (size_t at = 0; at < lines.size();) {
    const size_t end = std::min(lines.find('\n', at), lines.size());
    if (end > at) use(lines.substr(at, end - at));
    at = end + 1;
  }
}

void append_json(std::string& out, const JsonField& field) {
  switch (field.kind) {
    case JsonField::Kind::null:
      out += "null";
      break;
    case JsonField::Kind::boolean:
      out += field.boolean ? "true" : "false";
      break;
    case JsonField::Kind::integer:
      out += std::to_string(field.integer);
      break;
    case JsonField::Kind::string:
      append_json_string(out, field.text);
      break;
    case JsonField::Kind::real:
    case JsonField::Kind::json:
      out += field.text;
  }
}

// The values of one column, page by page.
class ColumnBuilder {
 public:
  ColumnBuilder(ColumnType type, int level) : type_(type), level_(level) {}

  bool is_set() const { return set_; }

  // False when the value does not fit the column.
  bool set(const JsonField& field) {
    using Kind = JsonField::Kind;
    if (field.kind == Kind::null) return false;
    switch (type_) {
      case ColumnType::boolean:
        if (field.kind != Kind::boolean) return false;
        put_bit(field.boolean);
        break;
      case ColumnType::integer:
        if (field.kind != Kind::integer) return false;
        put(&field.integer, sizeof field.integer);
        break;
      case ColumnType::real:
        if (!put_real(field)) return false;
        break;
      case ColumnType::string:
        if (field.kind != Kind::string) return false;
        put_text(field.text);
        break;
      case ColumnType::json:
        json_.clear();
        append_json(json_, field);
        put_text(json_);
    }
    set_ = true;
    return true;
  }

  void end_row() {
    if (rows_ % 8 == 0) defined_ += '\0';
    if (set_) {
      defined_.back() = static_cast<char>(defined_.back() | 1 << (rows_ % 8));
    } else {
      ++nulls_;
    }
    ++rows_;
    set_ = false;
    if (values_.size() >= kPageBytes) end_page();
  }

  ColumnPages finish() {
    end_page();
    return std::move(pages_);
  }

 private:
  void put(const void* bytes, size_t size) {
    values_.append(static_cast<const char*>(bytes), size);
  }

  void put_bit(bool bit) {
    if (bits_ % 8 == 0) values_ += '\0';
    if (bit) values_.back() = static_cast<char>(values_.back() | 1 << (bits_ % 8));
    ++bits_;
  }

  bool put_real(const JsonField& field) {
    const bool whole = field.kind == JsonField::Kind::integer && field.integer >= -kExactIntegers &&
                       field.integer <= kExactIntegers;
    if (!whole && field.kind != JsonField::Kind::real) return false;
    const double value = whole ? static_cast<double>(field.integer) : field.real;
    put(&value, sizeof value);
    return true;
  }

  void put_text(std::string_view text) {
    require_data(text.size() < (size_t{1} << 31) - (size_t{1} << 16),
                 "a value of {} bytes does not fit a page of Parquet; write JSON lines instead",
                 text.size());
    const auto size = static_cast<uint32_t>(text.size());
    put(&size, sizeof size);
    values_ += text;
  }

  // Definition levels, one bit each: a run where all are the same, else packed.
  void append_levels(std::string& page) const {
    std::string levels;
    const auto varint = [&](uint64_t value) {
      for (; value >= 0x80; value >>= 7) levels += static_cast<char>(value | 0x80);
      levels += static_cast<char>(value);
    };
    if (nulls_ == 0 || nulls_ == rows_) {
      varint(static_cast<uint64_t>(rows_) << 1);
      levels += nulls_ == 0 ? '\1' : '\0';
    } else {
      varint(defined_.size() << 1 | 1);
      levels += defined_;
    }
    const auto size = static_cast<uint32_t>(levels.size());
    page.append(reinterpret_cast<const char*>(&size), sizeof size);
    page += levels;
  }

  void end_page() {
    if (rows_ == 0) return;
    std::string page, packed, header;
    append_levels(page);
    page += values_;
    append_zstd_frame(packed, page, level_);
    ThriftWriter out(header);
    constexpr int64_t kDataPage = 0, kPlainValues = 0, kRleLevels = 3;
    out.begin_struct();
    out.integer(1, kDataPage);
    out.integer(2, static_cast<int64_t>(page.size()));
    out.integer(3, static_cast<int64_t>(packed.size()));
    out.begin_struct(5);
    out.integer(1, rows_);
    out.integer(2, kPlainValues);
    out.integer(3, kRleLevels);
    out.integer(4, kRleLevels);
    out.end_struct();
    out.end_struct();
    pages_.unpacked_bytes += static_cast<int64_t>(header.size() + page.size());
    pages_.nulls += nulls_;
    pages_.bytes += header;
    pages_.bytes += packed;
    values_.clear();
    defined_.clear();
    rows_ = nulls_ = bits_ = 0;
  }

  ColumnType type_;
  int level_;
  std::string values_, defined_, json_;
  int64_t rows_ = 0, nulls_ = 0, bits_ = 0;
  bool set_ = false;
  ColumnPages pages_;
};

}  // namespace

std::string_view column_type_name(ColumnType type) {
  constexpr std::string_view kNames[] = {"boolean", "integer", "real", "string", "json"};
  return kNames[static_cast<size_t>(type)];
}

// Objects mostly have the same fields in the same order, so the search begins where the next one
// is expected.
void SeenFields::see(std::string_view name, uint8_t kinds, size_t& expected) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    const size_t at = expected + i < fields_.size() ? expected + i : expected + i - fields_.size();
    if (fields_[at].first != name) continue;
    fields_[at].second |= kinds;
    expected = at + 1 < fields_.size() ? at + 1 : 0;
    return;
  }
  if (fields_.size() == kMaxColumns || name.empty() || name.size() > kMaxNameBytes) return;
  if (name != kOtherColumn) fields_.emplace_back(name, kinds);
}

void SeenFields::add_lines(std::string_view lines) {
  JsonLine parser;
  each_line(lines, [&](std::string_view line) {
    size_t expected = 0;
    parser.each_padded_field(
        line, [&](const JsonField& field) { see(field.key, seen_kind(field.kind), expected); });
  });
}

void SeenFields::add(const SeenFields& later) {
  size_t expected = 0;
  for (const auto& [name, kinds] : later.fields_) see(name, kinds, expected);
}

std::vector<DocumentColumn> SeenFields::columns() const {
  std::vector<DocumentColumn> columns;
  for (const auto& [name, kinds] : fields_) {
    if (kinds != 0) columns.push_back({name, type_of(kinds)});
  }
  columns.push_back({kOtherColumn, ColumnType::json});
  return columns;
}

DocumentPages make_pages(std::string_view lines, std::span<const DocumentColumn> columns,
                         int level) {
  std::vector<ColumnBuilder> builders;
  for (const DocumentColumn& column : columns) builders.emplace_back(column.type, level);
  const size_t named = columns.size() - 1;
  DocumentPages pages;
  JsonLine parser;
  std::string other;
  each_line(lines, [&](std::string_view line) {
    other.clear();
    size_t expected = 0;
    parser.each_padded_field(line, [&](const JsonField& field) {
      for (size_t i = 0; i < named; ++i) {
        const size_t at = expected + i < named ? expected + i : expected + i - named;
        if (columns[at].name != field.key) continue;
        expected = at + 1 < named ? at + 1 : 0;
        if (!builders[at].is_set() && builders[at].set(field)) return;
        break;
      }
      other += other.empty() ? '{' : ',';
      append_json_string(other, field.key);
      other += ':';
      append_json(other, field);
    });
    if (!other.empty()) {
      other += '}';
      JsonField rest;
      rest.kind = JsonField::Kind::json;
      rest.text = other;
      builders[named].set(rest);
    }
    for (ColumnBuilder& builder : builders) builder.end_row();
    ++pages.rows;
  });
  for (ColumnBuilder& builder : builders) pages.columns.push_back(builder.finish());
  return pages;
}

}  // namespace tephra
