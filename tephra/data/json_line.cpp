// SPDX-License-Identifier: Apache-2.0
// The only file that includes simdjson.
#include "tephra/data/json_line.h"

#include <simdjson.h>

#include <vector>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {

namespace {

bool in_number(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Digits from `at` on; false when there is none.
bool skip_digits(std::string_view text, size_t& at) {
  const size_t begin = at;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
  return at > begin;
}

bool is_json_number(std::string_view text) {
  size_t at = text.starts_with('-') ? 1 : 0;
  const bool zero = at < text.size() && text[at] == '0';
  const size_t whole = at;
  if (!skip_digits(text, at) || (zero && at > whole + 1)) return false;
  if (at < text.size() && text[at] == '.' && !skip_digits(text, ++at)) return false;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    if (++at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (!skip_digits(text, at)) return false;
  }
  return at == text.size();
}

// The line with its long numbers as strings: those that neither 64 bits nor a double hold are valid
// JSON, and no reason to lose a document.
std::string with_long_numbers_quoted(std::string_view line) {
  constexpr size_t kLong = 19;  // digits; exponents count as long, too
  std::string out;
  for (size_t at = 0; at < line.size();) {
    size_t end = at + 1;
    if (line[at] == '"') {
      while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, line.size());
    }
    bool quoted = false;
    if (line[at] == '-' || (line[at] >= '0' && line[at] <= '9')) {
      while (end < line.size() && in_number(line[end])) ++end;
      const std::string_view number = line.substr(at, end - at);
      quoted = (number.size() >= kLong || number.find_first_of("eE") != std::string_view::npos) &&
               is_json_number(number);
    }
    if (quoted) out += '"';
    out += line.substr(at, end - at);
    if (quoted) out += '"';
    at = end;
  }
  return out;
}

std::string_view kind_name(const simdjson::dom::element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    case simdjson::dom::element_type::BOOL:
      return "a boolean";
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    default:
      return "a number";
  }
}

}  // namespace

struct JsonLine::Parser {
  simdjson::dom::parser parser;
  simdjson::simdjson_result<simdjson::dom::element> result;
  simdjson::dom::object object;
};

JsonLine::JsonLine() : parser_(std::make_unique<Parser>()) {}
JsonLine::~JsonLine() = default;

std::string_view JsonLine::string_field(std::string_view line, std::string_view field) {
  parse(line, false);
  return field_of(line, field);
}

std::string_view JsonLine::padded_string_field(std::string_view line, std::string_view field) {
  parse(line, true);
  return field_of(line, field);
}

void JsonLine::parse(std::string_view line, bool padded) {
  parser_->result = parser_->parser.parse(line.data(), line.size(), !padded);
  if (parser_->result.error() != simdjson::NUMBER_ERROR) return;
  const std::string again = with_long_numbers_quoted(line);
  parser_->result = parser_->parser.parse(again.data(), again.size(), true);
}

void JsonLine::need_object(std::string_view line) {
  const auto& parsed = parser_->result;
  const simdjson::error_code broken = parsed.error();
  require_data(broken == simdjson::SUCCESS, "expected a JSON object, got '{}' ({})",
               clipped(line, 60), simdjson::error_message(broken));
  require_data(parsed.get_object().get(parser_->object) == simdjson::SUCCESS,
               "expected a JSON object, got {}", clipped(line, 60));
}

std::string_view JsonLine::field_of(std::string_view line, std::string_view field) {
  need_object(line);
  simdjson::dom::element value;
  int times = 0;
  for (const simdjson::dom::key_value_pair& pair : parser_->object) {
    if (pair.key != field) continue;
    value = pair.value;
    ++times;
  }
  require_data(times > 0, "expected the key '{}', which the object does not have", field);
  // Readers differ in which one they take: what was judged here might not be what is trained on.
  require_data(times == 1, "expected the key '{}' once, got it {} times", field, times);
  std::string_view text;
  require_data(value.get_string().get(text) == simdjson::SUCCESS,
               "key '{}': expected a string, got {}", field, kind_name(value));
  return text;
}

std::optional<std::string_view> JsonLine::find_string(std::string_view field) const {
  simdjson::dom::element value;
  if (parser_->object.at_key(field).get(value) != simdjson::SUCCESS) return {};
  std::string_view text;
  require_data(value.get_string().get(text) == simdjson::SUCCESS,
               "key '{}': expected a string, got {}", field, kind_name(value));
  return text;
}

std::optional<double> JsonLine::find_number(std::string_view field) const {
  double number = 0;
  if (parser_->object.at_key(field).get_double().get(number) != simdjson::SUCCESS) return {};
  return number;
}

namespace {

using Kind = JsonField::Kind;

// False when it is none of those that need no memory of their own.
bool take_scalar(const simdjson::dom::element& value, JsonField& field) {
  switch (value.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      field.kind = Kind::null;
      return true;
    case simdjson::dom::element_type::BOOL:
      field.kind = Kind::boolean;
      field.boolean = value.get_bool().value_unsafe();
      return true;
    case simdjson::dom::element_type::INT64:
      field.kind = Kind::integer;
      field.integer = value.get_int64().value_unsafe();
      return true;
    case simdjson::dom::element_type::STRING:
      field.kind = Kind::string;
      field.text = value.get_string().value_unsafe();
      return true;
    case simdjson::dom::element_type::DOUBLE:
      field.kind = Kind::real;
      field.real = value.get_double().value_unsafe();
      return true;
    default:
      return false;
  }
}

constexpr size_t kMaxElements = 1 << 16;  // a hundred bytes each

bool take_list(const simdjson::dom::element& value, std::vector<JsonField>& elements) {
  simdjson::dom::array array;
  if (value.get_array().get(array) != simdjson::SUCCESS || array.size() > kMaxElements)
    return false;
  elements.clear();
  for (const simdjson::dom::element& each : array) {
    elements.emplace_back();
    if (!take_scalar(each, elements.back())) return false;
  }
  return true;
}

// `json` holds the text of what has none of its own, `elements` those of a list.
void take_value(const simdjson::dom::element& value, JsonField& field, std::string& json,
                std::vector<JsonField>& elements) {
  if (take_scalar(value, field)) {
    if (field.kind != Kind::real) return;
  } else if (take_list(value, elements)) {
    field.kind = Kind::list;
    field.elements = elements;
  } else {
    field.kind = Kind::json;
  }
  json = simdjson::minify(value);
  field.text = json;
}

}  // namespace

void JsonLine::each_padded_field(std::string_view line, FunctionRef<void(const JsonField&)> use) {
  parse(line, true);
  need_object(line);
  std::string json;
  std::vector<JsonField> elements;
  for (const simdjson::dom::key_value_pair& pair : parser_->object) {
    JsonField field;
    field.key = pair.key;
    take_value(pair.value, field, json, elements);
    use(field);
  }
}

}  // namespace tephra
