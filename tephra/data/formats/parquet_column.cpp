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
#include "tephra/data/formats/document_columns.h"
#include "tephra/data/formats/parquet_values.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr int64_t kPlainPages = 0, kPlainDictionary = 2, kRle = 3, kDelta = 5, kRleDictionary = 8,
                  kStreamSplit = 9;
constexpr int64_t kMaxPageValues = int64_t{1} << 24;
constexpr size_t kMaxDecimalBytes = 32;
constexpr int64_t kHeaderBytes = 1 << 16;  // statistics can make headers long

size_t number_bytes(ParquetType type) {
  return type == ParquetType::i32 || type == ParquetType::f32 ? 4 : 8;
}

void append_date(std::string& out, int64_t day) {
  constexpr int64_t kMostDays = 10'000'000;  // what a calendar of 16 bits of years holds
  const auto shown = static_cast<int>(std::clamp(day, -kMostDays, kMostDays));
  const std::chrono::year_month_day date{std::chrono::sys_days{std::chrono::days{shown}}};
  out += format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
}

// `time` since midnight; so many digits make a second.
void append_clock(std::string& out, int64_t time, int64_t second, int digits) {
  const int64_t seconds = time / second, fraction = time % second;
  out += format("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
  if (fraction != 0) out += format(".{:0{}}", fraction, digits);
}

// ISO 8601, without a zone: whether a time is UTC's is not always known.
void append_moment(std::string& out, int64_t count, ParquetMoment moment) {
  using enum ParquetMoment;
  const bool milliseconds = moment == time_ms || moment == timestamp_ms;
  const bool nanoseconds = moment == time_ns || moment == timestamp_ns;
  const int digits = milliseconds ? 3 : nanoseconds ? 9 : 6;
  const int64_t second = milliseconds ? 1000 : nanoseconds ? 1'000'000'000 : 1'000'000;
  const int64_t whole_day = 86400 * second;
  const bool has_date = moment != time_ms && moment != time_us && moment != time_ns;
  const int64_t day = count / whole_day - (count % whole_day < 0 ? 1 : 0);
  out += '"';
  if (has_date) append_date(out, moment == days ? count : day);
  if (has_date && moment != days) out += 'T';
  // Not by a product: days times what they have could be beyond 64 bits.
  const int64_t time = count % whole_day + (count % whole_day < 0 ? whole_day : 0);
  if (moment != days) append_clock(out, time, second, digits);
  out += '"';
}

// Nanoseconds of the day and the day since 4713 BC, as Impala and Spark wrote times.
void append_julian(std::string& out, std::string_view bytes) {
  constexpr int64_t kEpoch = 2440588, kSecond = 1'000'000'000, kDay = 86400 * kSecond;
  int64_t time = 0;
  uint32_t day = 0;
  std::memcpy(&time, bytes.data(), 8);
  std::memcpy(&day, bytes.data() + 8, 4);
  out += '"';
  append_date(out, int64_t{day} - kEpoch);
  out += 'T';
  append_clock(out, std::clamp<int64_t>(time, 0, kDay - 1), kSecond, 9);
  out += '"';
}

void append_decimal(std::string& out, std::string digits, size_t scale) {
  const size_t sign = digits.starts_with('-') ? 1 : 0;
  if (scale > 0) {
    const size_t have = digits.size() - sign;
    if (have <= scale) digits.insert(sign, scale + 1 - have, '0');
    digits.insert(digits.size() - scale, 1, '.');
  }
  out += digits;
}

void append_integer(std::string& out, int64_t bits, const ParquetColumn& column) {
  if (column.moment != ParquetMoment::none) return append_moment(out, bits, column.moment);
  if (column.is_unsigned) {
    const auto value = static_cast<uint64_t>(bits);
    out += std::to_string(column.type == ParquetType::i32 ? value & UINT32_MAX : value);
    return;
  }
  append_decimal(out, std::to_string(bits), static_cast<size_t>(column.scale));
}

// The digits of an integer of any size, which is stored with its highest byte first.
std::string digits_of(std::string_view bytes) {
  std::vector<uint32_t> number(bytes.begin(), bytes.end());
  const bool negative = !number.empty() && (number[0] & 0x80) != 0;
  for (uint32_t& byte : number) byte = (negative ? ~byte : byte) & 0xff;
  std::string digits;
  uint32_t carry = negative ? 1 : 0;
  for (size_t i = number.size(); i-- > 0 && carry > 0;) {
    number[i] += carry;
    carry = number[i] >> 8;
    number[i] &= 0xff;
  }
  const auto is_zero = [](uint32_t byte) { return byte == 0; };
  while (!std::all_of(number.begin(), number.end(), is_zero)) {
    uint32_t rest = 0;
    for (uint32_t& byte : number) {
      const uint32_t all = rest << 8 | byte;
      byte = all / 10;
      rest = all % 10;
    }
    digits += static_cast<char>('0' + rest);
  }
  if (digits.empty()) return "0";
  if (negative) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

void append_hex(std::string& out, std::string_view bytes) {
  for (const char byte : bytes) out += format("{:02x}", static_cast<unsigned char>(byte));
}

void append_uuid(std::string& out, std::string_view bytes) {
  out += '"';
  size_t at = 0;
  for (const size_t part : {4, 2, 2, 2, 6}) {
    if (at > 0) out += '-';
    append_hex(out, bytes.substr(at, part));
    at += part;
  }
  out += '"';
}

double half_value(std::string_view bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes.data(), 2);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

void append_real(std::string& out, double value) {
  if (std::isfinite(value)) {
    out += format("{}", value);
  } else {
    append_json_string(out, not_finite_name(value));
  }
}

}  // namespace

ParquetColumnReader::ParquetColumnReader(const FileReader& file, const ParquetColumn& column,
                                         const ParquetChunk& chunk)
    : file_(file),
      column_(column),
      chunk_(chunk),
      where_(format("{}: column {} ({})", file.path().string(), column.name,
                    parquet_type_name(column.type))),
      at_(chunk.offset),
      end_(chunk.offset + chunk.bytes),
      left_(chunk.values) {
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
    const std::span<char> to = packed_.resize(static_cast<size_t>(header.packed_bytes));
    file_.read(at_, std::as_writable_bytes(to));
    at_ += header.packed_bytes;
    if (header.page == ParquetPage::index) continue;
    if (header.page == ParquetPage::dictionary) {
      load_dictionary(header, packed_.view());
      continue;
    }
    load_data(header, packed_.view());
    if (entries_ > 0) return true;
  }
  return false;
}

void ParquetColumnReader::load_dictionary(const ParquetPageHeader& header,
                                          std::string_view packed) {
  require_data(header.values <= kMaxPageValues, "{}: its dictionary is damaged", where_);
  decompress_page(chunk_.codec, packed, static_cast<size_t>(header.bytes), dictionary_page_,
                  where_);
  load_values(dictionary_page_.view(), kPlainPages, static_cast<size_t>(header.values));
  dictionary_strings_.swap(strings_);
  dictionary_numbers_.swap(numbers_);
}

void ParquetColumnReader::load_data(const ParquetPageHeader& header, std::string_view packed) {
  require_data(header.values <= left_, "{}: a page has more values than the column", where_);
  require_data(header.values <= kMaxPageValues, "{}: expected pages of at most {} values, got {}",
               where_, kMaxPageValues, header.values);
  left_ -= header.values;
  entries_ = static_cast<size_t>(header.values);
  entry_ = value_ = 0;
  std::string_view repetitions, definitions, values;
  if (header.page == ParquetPage::data_v2) {
    const auto levels = static_cast<size_t>(header.definition_bytes + header.repetition_bytes);
    require_data(header.bytes >= static_cast<int64_t>(levels), "{}: a page is damaged", where_);
    repetitions = packed.substr(0, static_cast<size_t>(header.repetition_bytes));
    definitions = packed.substr(repetitions.size(), static_cast<size_t>(header.definition_bytes));
    const bool plain = !header.compressed || packed.size() == levels;
    decompress_page(plain ? PageCodec::none : chunk_.codec, packed.substr(levels),
                    static_cast<size_t>(header.bytes) - levels, page_, where_);
    values = page_.view();
  } else {
    decompress_page(chunk_.codec, packed, static_cast<size_t>(header.bytes), page_, where_);
    values = page_.view();
    if (column_.max_repetition > 0) repetitions = take_levels(values, header.repetition_encoding);
    if (column_.max_definition > 0) definitions = take_levels(values, header.definition_encoding);
  }
  if (column_.max_repetition > 0) load_levels(repetitions, column_.max_repetition, repetitions_);
  load_levels(definitions, column_.max_definition, definitions_);
  const auto highest = static_cast<uint32_t>(column_.max_definition);
  const auto present = std::count(definitions_.begin(), definitions_.end(), highest);
  load_values(values, header.encoding, static_cast<size_t>(present));
}

// Levels at the beginning of a page, after their size.
std::string_view ParquetColumnReader::take_levels(std::string_view& bytes, int64_t encoding) const {
  require_data(encoding == kRleLevels, "{}: levels in encoding {} are not supported", where_,
               encoding);
  uint32_t size = 0;
  require_data(bytes.size() >= 4, "{}: a page is damaged", where_);
  std::memcpy(&size, bytes.data(), 4);
  require_data(size <= bytes.size() - 4, "{}: a page is damaged", where_);
  const std::string_view levels = bytes.substr(4, size);
  bytes.remove_prefix(4 + size);
  return levels;
}

void ParquetColumnReader::load_levels(std::string_view bytes, int highest,
                                      std::vector<uint32_t>& levels) const {
  const auto most = static_cast<uint32_t>(highest);
  if (highest == 0) {
    levels.assign(entries_, 0);
    return;
  }
  decode_hybrid(bytes, std::bit_width(most), entries_, levels, where_);
  if (highest == 1) return;  // one bit cannot be more
  for (const uint32_t level : levels) {
    require_data(level <= most, "{}: a page is damaged", where_);
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
  } else if (column_.type != ParquetType::bytes && column_.is_bytes()) {
    load_fixed(bytes, encoding, count);
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

// Values of one length, without it.
void ParquetColumnReader::load_fixed(std::string_view bytes, int64_t encoding, size_t count) {
  const auto width = static_cast<size_t>(column_.length);
  if (encoding == kDeltaBytes) {
    decode_strings(bytes, encoding, count, strings_, held_, where_);
    for (const std::string_view value : strings_) {
      require_data(value.size() == width, "{}: a page is damaged", where_);
    }
    return;
  }
  const bool split = encoding == kStreamSplit;
  require_data(encoding == kPlainPages || split, "{}: values in encoding {} are not supported",
               where_, encoding);
  require_data(bytes.size() / width >= count, "{}: a page is damaged", where_);
  if (split) {
    held_.resize(count * width);
    for (size_t i = 0; i < held_.size(); ++i) held_[i] = bytes[i % width * count + i / width];
    bytes = held_;
  }
  strings_.clear();
  for (size_t i = 0; i < count; ++i) strings_.push_back(bytes.substr(i * width, width));
}

std::string_view ParquetColumnReader::text_at(size_t at) const {
  return by_index_ ? dictionary_strings_[indices_[at]] : strings_[at];
}

// Text that is no UTF-8 makes its document a bad one, as in JSON lines; other bytes that are none
// are shown in hexadecimal.
void ParquetColumnReader::append_bytes(std::string& out, std::string_view bytes) const {
  if (column_.text) return append_json_string(out, bytes);
  if (column_.type == ParquetType::i96) return append_julian(out, bytes);
  if (column_.uuid) return append_uuid(out, bytes);
  if (column_.half) return append_real(out, half_value(bytes));
  if (column_.decimal && bytes.size() <= kMaxDecimalBytes) {
    return append_decimal(out, digits_of(bytes), static_cast<size_t>(column_.scale));
  }
  if (column_.type == ParquetType::bytes && is_utf8(bytes)) return append_json_string(out, bytes);
  out += "\"0x";
  append_hex(out, bytes);
  out += '"';
}

void ParquetColumnReader::append_value(std::string& out, size_t at) const {
  if (column_.is_bytes()) return append_bytes(out, text_at(at));
  const size_t index = by_index_ ? indices_[at] : at;
  const int64_t bits = by_index_ ? dictionary_numbers_[index] : numbers_[index];
  switch (column_.type) {
    case ParquetType::boolean:
      out += bits != 0 ? "true" : "false";
      break;
    case ParquetType::f32:
    case ParquetType::f64:
      append_real(out, column_.type == ParquetType::f32
                           ? double{std::bit_cast<float>(static_cast<uint32_t>(bits))}
                           : std::bit_cast<double>(bits));
      break;
    default:
      append_integer(out, bits, column_);
  }
}

bool ParquetColumnReader::next_is_defined() {
  const bool defined = definition() == column_.max_definition;
  ++entry_;
  value_ += defined;
  return defined;
}

int ParquetColumnReader::definition() {
  require_data(has_next(), "{}: has fewer values than its row group has rows", where_);
  return static_cast<int>(definitions_[entry_]);
}

int ParquetColumnReader::repetition() {
  if (column_.max_repetition == 0) return 0;
  return has_next() ? static_cast<int>(repetitions_[entry_]) : 0;
}

void ParquetColumnReader::check_end() const {
  require_data(left_ == 0 && entry_ == entries_, "{}: has more values than its row group has rows",
               where_);
}

bool ParquetColumnReader::append_next(std::string& out) {
  if (!next_is_defined()) return false;
  append_value(out, value_ - 1);
  return true;
}

// Between the tokens of JSON a space is as good as a line's end, and within strings neither stands.
bool ParquetColumnReader::append_next_raw(std::string& out) {
  if (!next_is_defined()) return false;
  const size_t before = out.size();
  out += text_at(value_ - 1);
  std::replace(out.begin() + static_cast<ptrdiff_t>(before), out.end(), '\n', ' ');
  return true;
}

std::optional<std::string_view> ParquetColumnReader::next_string() {
  TEPHRA_ASSERT(column_.type == ParquetType::bytes, "the column has strings");
  if (!next_is_defined()) return std::nullopt;
  return text_at(value_ - 1);
}

}  // namespace tephra
