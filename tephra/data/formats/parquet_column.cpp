// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/formats/parquet_column.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/parquet_values.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr int64_t kPlainPages = 0, kPlainDictionary = 2, kRle = 3, kDelta = 5, kRleDictionary = 8,
                  kStreamSplit = 9;
constexpr int64_t kMaxPageValues = int64_t{1} << 24;
constexpr int64_t kHeaderBytes = 1 << 16;  // statistics can make headers long

size_t number_bytes(ParquetType type) {
  return type == ParquetType::i32 || type == ParquetType::f32 ? 4 : 8;
}

// ISO 8601, without a zone: whether a time is UTC's is not always known.
void append_moment(std::string& out, int64_t count, ParquetMoment moment) {
  using enum ParquetMoment;
  const bool milliseconds = moment == time_ms || moment == timestamp_ms;
  count = std::clamp(count, -(int64_t{1} << 62), int64_t{1} << 62);  // what is beyond is nonsense
  const bool has_date = moment != time_ms && moment != time_us, has_time = moment != days;
  const int64_t second = milliseconds ? 1000 : 1000000, whole_day = 86400 * second;
  const int64_t day = has_time ? count / whole_day - (count % whole_day < 0 ? 1 : 0) : count;
  out += '"';
  if (has_date) {
    constexpr int64_t kMostDays = 10'000'000;  // what a calendar of 16 bits of years holds
    const auto shown = static_cast<int>(std::clamp(day, -kMostDays, kMostDays));
    const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{shown}}};
    out += format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  }
  if (has_date && has_time) out += 'T';
  if (has_time) {
    const int64_t rest = count - day * whole_day, seconds = rest / second, fraction = rest % second;
    out += format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if (fraction != 0)
      out += milliseconds ? format(".{:03}", fraction) : format(".{:06}", fraction);
  }
  out += '"';
}

void append_integer(std::string& out, int64_t bits, const ParquetColumn& column) {
  if (column.moment != ParquetMoment::none) return append_moment(out, bits, column.moment);
  if (column.is_unsigned) {
    const auto value = static_cast<uint64_t>(bits);
    out += std::to_string(column.type == ParquetType::i32 ? value & UINT32_MAX : value);
    return;
  }
  std::string digits = std::to_string(bits);
  const size_t sign = bits < 0 ? 1 : 0, scale = static_cast<size_t>(column.scale);
  if (scale > 0) {
    const size_t have = digits.size() - sign;
    if (have <= scale) digits.insert(sign, scale + 1 - have, '0');
    digits.insert(digits.size() - scale, 1, '.');
  }
  out += digits;
}

}  // namespace

ParquetColumnReader::ParquetColumnReader(const FileReader& file, const ParquetColumn& column,
                                         const ParquetChunk& chunk)
    : file_(file),
      column_(column),
      chunk_(chunk),
      where_(format("{}: column {}", file.path().string(), column.name)),
      at_(chunk.offset),
      end_(chunk.offset + chunk.bytes) {
  require_data(chunk.unsupported.empty(), "{}: is compressed with {}, which is not supported",
               where_, chunk.unsupported);
}

bool ParquetColumnReader::load_page() {
  while (at_ < end_) {
    std::string head(static_cast<size_t>(std::min(kHeaderBytes, end_ - at_)), '\0');
    file_.read(at_, std::as_writable_bytes(std::span(head)));
    const ParquetPageHeader header = read_page_header(head, where_);
    at_ += static_cast<int64_t>(header.header_bytes);
    require_data(header.packed_bytes <= end_ - at_, "{}: a page ends after the column", where_);
    packed_.resize(static_cast<size_t>(header.packed_bytes));
    file_.read(at_, std::as_writable_bytes(std::span(packed_)));
    at_ += header.packed_bytes;
    if (header.page == ParquetPage::index) continue;
    if (header.page == ParquetPage::dictionary) {
      load_dictionary(header, packed_);
      continue;
    }
    load_data(header, packed_);
    if (rows_ > 0) return true;
  }
  return false;
}

void ParquetColumnReader::load_dictionary(const ParquetPageHeader& header,
                                          std::string_view packed) {
  require_data(header.values <= kMaxPageValues, "{}: its dictionary is damaged", where_);
  decompress_page(chunk_.codec, packed, static_cast<size_t>(header.bytes), dictionary_page_,
                  where_);
  load_values(dictionary_page_, kPlainPages, static_cast<size_t>(header.values));
  dictionary_strings_.swap(strings_);
  dictionary_numbers_.swap(numbers_);
}

void ParquetColumnReader::load_data(const ParquetPageHeader& header, std::string_view packed) {
  require_data(header.values <= chunk_.values, "{}: a page has more values than the column",
               where_);
  rows_ = static_cast<size_t>(header.values);
  row_ = value_ = 0;
  const bool v2 = header.page == ParquetPage::data_v2;
  const auto levels = static_cast<size_t>(header.definition_bytes + header.repetition_bytes);
  std::string_view definitions, values;
  if (v2) {
    require_data(header.bytes >= static_cast<int64_t>(levels), "{}: a page is damaged", where_);
    definitions = packed.substr(static_cast<size_t>(header.repetition_bytes),
                                static_cast<size_t>(header.definition_bytes));
    const bool plain = !header.compressed || packed.size() == levels;
    decompress_page(plain ? PageCodec::none : chunk_.codec, packed.substr(levels),
                    static_cast<size_t>(header.bytes) - levels, page_, where_);
    values = page_;
  } else {
    decompress_page(chunk_.codec, packed, static_cast<size_t>(header.bytes), page_, where_);
    values = page_;
    if (column_.optional) {
      uint32_t size = 0;
      require_data(values.size() >= 4, "{}: a page is damaged", where_);
      std::memcpy(&size, values.data(), 4);
      require_data(size <= values.size() - 4, "{}: a page is damaged", where_);
      definitions = values.substr(4, size);
      values.remove_prefix(4 + size);
    }
  }
  load_definitions(definitions, rows_);
  const auto present = static_cast<size_t>(std::count(defined_.begin(), defined_.end(), 1u));
  load_values(values, header.encoding, present);
}

void ParquetColumnReader::load_definitions(std::string_view bytes, size_t count) {
  if (column_.optional) {
    decode_hybrid(bytes, 1, count, defined_, where_);
  } else {
    defined_.assign(count, 1);
  }
}

void ParquetColumnReader::load_values(std::string_view bytes, int64_t encoding, size_t count) {
  by_index_ = encoding == kPlainDictionary || encoding == kRleDictionary;
  if (by_index_) {
    indices_.clear();
    if (count == 0) return;
    require_data(!bytes.empty(), "{}: a page is damaged", where_);
    decode_hybrid(bytes.substr(1), static_cast<unsigned char>(bytes[0]), count, indices_, where_);
    const size_t entries = std::max(dictionary_strings_.size(), dictionary_numbers_.size());
    for (const uint32_t index : indices_) {
      require_data(index < entries, "{}: a page names a value that its dictionary does not have",
                   where_);
    }
  } else if (column_.type == ParquetType::bytes) {
    decode_strings(bytes, encoding, count, strings_, held_, where_);
  } else {
    load_numbers(bytes, encoding, count);
  }
}

void ParquetColumnReader::load_numbers(std::string_view bytes, int64_t encoding, size_t count) {
  numbers_.clear();
  if (column_.type == ParquetType::boolean) {
    if (encoding == kRle) {
      require_data(bytes.size() >= 4, "{}: a page is damaged", where_);
      std::vector<uint32_t> bits;
      decode_hybrid(bytes.substr(4), 1, count, bits, where_);
      numbers_.assign(bits.begin(), bits.end());
      return;
    }
    require_data(encoding == kPlainPages && bytes.size() >= (count + 7) / 8,
                 "{}: a page is damaged", where_);
    for (size_t i = 0; i < count; ++i) {
      numbers_.push_back(static_cast<unsigned char>(bytes[i / 8]) >> (i % 8) & 1);
    }
    return;
  }
  if (encoding == kDelta) {
    decode_delta(bytes, numbers_, count, where_);
    require_data(numbers_.size() == count, "{}: a page is damaged", where_);
    return;
  }
  const bool split = encoding == kStreamSplit;  // all first bytes, then all second ones, ...
  require_data(encoding == kPlainPages || split, "{}: numbers in encoding {} are not supported",
               where_, encoding);
  const size_t width = number_bytes(column_.type);
  require_data(bytes.size() / width >= count, "{}: a page is damaged", where_);
  for (size_t i = 0; i < count; ++i) {
    int64_t value = 0;
    char raw[8] = {};
    for (size_t b = 0; b < width; ++b) raw[b] = bytes[split ? b * count + i : i * width + b];
    std::memcpy(&value, raw, width);
    if (column_.type == ParquetType::i32) value = static_cast<int32_t>(value);
    numbers_.push_back(value);
  }
}

std::string_view ParquetColumnReader::text_at(size_t at) const {
  return by_index_ ? dictionary_strings_[indices_[at]] : strings_[at];
}

void ParquetColumnReader::append_value(std::string& out, size_t at) const {
  if (column_.type == ParquetType::bytes) {
    const std::string_view text = text_at(at);
    // Text that is no UTF-8 makes its document a bad one, as in JSON lines; other bytes are shown
    // as well as they can be.
    append_json_string(out, column_.text || is_utf8(text) ? text : lossy_utf8(text));
    return;
  }
  const size_t index = by_index_ ? indices_[at] : at;
  const int64_t bits = by_index_ ? dictionary_numbers_[index] : numbers_[index];
  switch (column_.type) {
    case ParquetType::boolean:
      out += bits != 0 ? "true" : "false";
      break;
    case ParquetType::f32:
    case ParquetType::f64: {
      const double value = column_.type == ParquetType::f32
                               ? double{std::bit_cast<float>(static_cast<uint32_t>(bits))}
                               : std::bit_cast<double>(bits);
      out += std::isfinite(value) ? format("{}", value) : "null";
      break;
    }
    default:
      append_integer(out, bits, column_);
  }
}

bool ParquetColumnReader::next_is_defined() {
  if (row_ == rows_) {
    require_data(load_page(), "{}: has fewer values than its row group has rows", where_);
  }
  return defined_[row_++] == 1;
}

bool ParquetColumnReader::append_next(std::string& out) {
  if (!next_is_defined()) return false;
  append_value(out, value_++);
  return true;
}

// Between the tokens of JSON a space is as good as a line's end, and within strings neither stands.
bool ParquetColumnReader::append_next_raw(std::string& out) {
  if (!next_is_defined()) return false;
  const size_t before = out.size();
  out += text_at(value_++);
  std::replace(out.begin() + static_cast<ptrdiff_t>(before), out.end(), '\n', ' ');
  return true;
}

std::optional<std::string_view> ParquetColumnReader::next_string() {
  TEPHRA_ASSERT(column_.type == ParquetType::bytes, "the column has strings");
  if (!next_is_defined()) return std::nullopt;
  return text_at(value_++);
}

}  // namespace tephra
