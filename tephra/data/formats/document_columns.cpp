// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/document_columns.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tephra/base/error.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/parquet_meta.h"
#include "tephra/data/formats/thrift_writer.h"
#include "tephra/data/json_line.h"
#include "tephra/io/zstd_frame.h"

namespace tephra {
namespace {

constexpr size_t kPageBytes = size_t{1} << 20;  // of values; a longer value is a page of its own
constexpr size_t kMaxColumns = 256;
constexpr size_t kMaxNameBytes = 1024;
constexpr size_t kMaxListBytes = size_t{1} << 28;
constexpr int64_t kExactIntegers = int64_t{1} << 53;  // of a double

// Bits of the kinds of values that were seen. kNotFinite is a string that may stand for a number.
constexpr uint32_t kBoolean = 1, kInteger = 2, kReal = 4, kString = 8, kNotFinite = 16,
                   kNested = 32, kList = 64;
constexpr int kElements = 8;  // the kinds of a list's elements stand so many bits higher

uint32_t seen_kind(const JsonField& field) {
  switch (field.kind) {
    case JsonField::Kind::null:
      return 0;
    case JsonField::Kind::boolean:
      return kBoolean;
    case JsonField::Kind::integer:
      return kInteger;
    case JsonField::Kind::real:
      return kReal;
    case JsonField::Kind::string:
      return not_finite_value(field.text) ? kNotFinite : kString;
    case JsonField::Kind::list: {
      uint32_t kinds = kList;
      for (const JsonField& element : field.elements) kinds |= seen_kind(element) << kElements;
      return kinds;
    }
    case JsonField::Kind::json:
      return kNested;
  }
  return kNested;
}

ColumnType type_of(uint32_t kinds) {
  switch (kinds) {
    case kBoolean:
      return ColumnType::boolean;
    case kInteger:
      return ColumnType::integer;
    case kReal:
    case kReal | kInteger:
    case kReal | kNotFinite:
    case kReal | kInteger | kNotFinite:
    case kInteger | kNotFinite:
      return ColumnType::real;
    case kString:
    case kNotFinite:
    case kString | kNotFinite:
      return ColumnType::string;
    default:
      return ColumnType::json;
  }
}

// Lists of one kind are lists of that; others, and those that never had an element, are JSON.
DocumentColumn column_of(const std::string& name, uint32_t kinds) {
  const bool lists = (kinds & ((1u << kElements) - 1)) == kList;
  const ColumnType type = type_of(lists ? kinds >> kElements : kinds);
  return {name, type, lists && type != ColumnType::json};
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
    case JsonField::Kind::list:
    case JsonField::Kind::json:
      out += field.text;
  }
}

// Runs of one value and bit-packed groups of eight: here all of them alike, or all packed.
void append_levels(std::string& page, const std::vector<uint8_t>& levels, int width) {
  std::string bytes;
  const auto varint = [&](uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
  };
  if (std::count(levels.begin(), levels.end(), levels[0]) == std::ssize(levels)) {
    varint(levels.size() << 1);
    bytes += static_cast<char>(levels[0]);
  } else {
    const size_t groups = (levels.size() + 7) / 8;
    varint(groups << 1 | 1);
    const size_t packed = bytes.size();
    bytes.resize(packed + groups * static_cast<size_t>(width));
    for (size_t i = 0; i < levels.size(); ++i) {
      const size_t bit = i * static_cast<size_t>(width);  // widths of 1 and 2 never cross a byte
      char& byte = bytes[packed + bit / 8];
      byte = static_cast<char>(byte | levels[i] << (bit % 8));
    }
  }
  const auto size = static_cast<uint32_t>(bytes.size());
  page.append(reinterpret_cast<const char*>(&size), sizeof size);
  page += bytes;
}

// The values of one column, page by page.
class ColumnBuilder {
 public:
  ColumnBuilder(const DocumentColumn& column, int level)
      : type_(column.type), list_(column.list), level_(level) {}

  bool is_set() const { return set_; }

  // False when the value does not fit the column.
  bool set(const JsonField& field) {
    if (list_ ? !fits_list(field) : !fits(field)) return false;
    set_ = true;
    if (!list_) {
      enter(kValue);
      put(field);
    } else if (field.elements.empty()) {
      enter(kEmptyList);
    } else {
      set_list(field.elements);
    }
    return true;
  }

  void end_row() {
    if (!set_) enter(kNothing);
    set_ = false;
    if (values_.size() >= kPageBytes) end_page();
  }

  ColumnPages finish() {
    end_page();
    return std::move(pages_);
  }

 private:
  // Definition levels. Those of lists go on where others have their value.
  static constexpr uint8_t kNothing = 0, kValue = 1, kEmptyList = 1, kNullElement = 2, kElement = 3;

  uint8_t highest() const { return list_ ? kElement : kValue; }

  void enter(uint8_t definition, uint8_t repetition = 0) {
    definitions_.push_back(definition);
    if (list_) repetitions_.push_back(repetition);
    if (definition != highest()) ++nulls_;
  }

  bool fits(const JsonField& field) const {
    using Kind = JsonField::Kind;
    switch (type_) {
      case ColumnType::boolean:
        return field.kind == Kind::boolean;
      case ColumnType::integer:
        return field.kind == Kind::integer;
      case ColumnType::real:
        return field.kind == Kind::real ||
               (field.kind == Kind::integer && field.integer >= -kExactIntegers &&
                field.integer <= kExactIntegers) ||
               (field.kind == Kind::string && not_finite_value(field.text));
      case ColumnType::string:
        return field.kind == Kind::string;
      case ColumnType::json:
        return field.kind != Kind::null;
    }
    return false;
  }

  // A list lies on one page, whose size is bounded.
  bool fits_list(const JsonField& field) const {
    return field.kind == JsonField::Kind::list && field.text.size() <= kMaxListBytes &&
           std::all_of(field.elements.begin(), field.elements.end(), [&](const JsonField& each) {
             return each.kind == JsonField::Kind::null || fits(each);
           });
  }

  void set_list(std::span<const JsonField> elements) {
    for (size_t i = 0; i < elements.size(); ++i) {
      const bool null = elements[i].kind == JsonField::Kind::null;
      enter(null ? kNullElement : kElement, i > 0 ? 1 : 0);
      if (!null) put(elements[i]);
    }
  }

  void put(const JsonField& field) {
    switch (type_) {
      case ColumnType::boolean:
        put_bit(field.boolean);
        break;
      case ColumnType::integer:
        put(&field.integer, sizeof field.integer);
        break;
      case ColumnType::real:
        put_real(field);
        break;
      case ColumnType::string:
        put_text(field.text);
        break;
      case ColumnType::json:
        json_.clear();
        append_json(json_, field);
        put_text(json_);
    }
  }

  void put(const void* bytes, size_t size) {
    values_.append(static_cast<const char*>(bytes), size);
  }

  void put_bit(bool bit) {
    if (bits_ % 8 == 0) values_ += '\0';
    if (bit) values_.back() = static_cast<char>(values_.back() | 1 << (bits_ % 8));
    ++bits_;
  }

  void put_real(const JsonField& field) {
    double value = field.real;
    if (field.kind == JsonField::Kind::integer) value = static_cast<double>(field.integer);
    if (field.kind == JsonField::Kind::string) value = *not_finite_value(field.text);
    put(&value, sizeof value);
  }

  void put_text(std::string_view text) {
    require_data(text.size() < (size_t{1} << 31) - (size_t{1} << 16),
                 "a value of {} bytes does not fit a page of Parquet; write JSON lines instead",
                 text.size());
    const auto size = static_cast<uint32_t>(text.size());
    put(&size, sizeof size);
    values_ += text;
  }

  void end_page() {
    if (definitions_.empty()) return;
    std::string page, packed, header;
    if (list_) append_levels(page, repetitions_, 1);
    append_levels(page, definitions_, list_ ? 2 : 1);
    page += values_;
    append_zstd_frame(packed, page, level_);
    const auto entries = static_cast<int64_t>(definitions_.size());
    ThriftWriter out(header);
    constexpr int64_t kDataPage = 0, kPlainValues = 0;
    out.begin_struct();
    out.integer(1, kDataPage);
    out.integer(2, static_cast<int64_t>(page.size()));
    out.integer(3, static_cast<int64_t>(packed.size()));
    out.begin_struct(5);
    out.integer(1, entries);
    out.integer(2, kPlainValues);
    out.integer(3, kRleLevels);
    out.integer(4, kRleLevels);
    out.end_struct();
    out.end_struct();
    pages_.unpacked_bytes += static_cast<int64_t>(header.size() + page.size());
    pages_.entries += entries;
    pages_.nulls += nulls_;
    pages_.bytes += header;
    pages_.bytes += packed;
    values_.clear();
    definitions_.clear();
    repetitions_.clear();
    nulls_ = bits_ = 0;
  }

  ColumnType type_;
  bool list_;
  int level_;
  std::string values_, json_;
  std::vector<uint8_t> definitions_, repetitions_;  // the latter of lists
  int64_t nulls_ = 0, bits_ = 0;
  bool set_ = false;
  ColumnPages pages_;
};

constexpr std::string_view kTypeNames[] = {"boolean", "integer", "real", "string", "json"};
constexpr std::string_view kListOf = "list of ";

}  // namespace

std::string_view not_finite_name(double value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

std::optional<double> not_finite_value(std::string_view name) {
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
    if (name == not_finite_name(value)) return value;
  }
  return std::nullopt;
}

std::string column_type_name(const DocumentColumn& column) {
  return std::string(column.list ? kListOf : "") +
         std::string(kTypeNames[static_cast<size_t>(column.type)]);
}

std::optional<DocumentColumn> column_of_type(const std::string& name, std::string_view type) {
  const bool list = type.starts_with(kListOf);
  if (list) type.remove_prefix(kListOf.size());
  for (size_t i = 0; i < std::size(kTypeNames); ++i) {
    if (type == kTypeNames[i]) return DocumentColumn{name, static_cast<ColumnType>(i), list};
  }
  return std::nullopt;
}

// Objects mostly have the same fields in the same order, so the search begins where the next one
// is expected.
void SeenFields::see(std::string_view name, uint32_t kinds, size_t& expected) {
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
        line, [&](const JsonField& field) { see(field.key, seen_kind(field), expected); });
  });
}

void SeenFields::add(const SeenFields& later) {
  size_t expected = 0;
  for (const auto& [name, kinds] : later.fields_) see(name, kinds, expected);
}

std::vector<DocumentColumn> SeenFields::columns() const {
  std::vector<DocumentColumn> columns;
  for (const auto& [name, kinds] : fields_) {
    if (kinds != 0) columns.push_back(column_of(name, kinds));
  }
  columns.push_back({kOtherColumn, ColumnType::json});
  return columns;
}

DocumentPages make_pages(std::string_view lines, std::span<const DocumentColumn> columns,
                         int level) {
  std::vector<ColumnBuilder> builders;
  for (const DocumentColumn& column : columns) builders.emplace_back(column, level);
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
