// SPDX-License-Identifier: Apache-2.0
// The only file that includes simdjson.
#include "tephra/data/json_line.h"

#include <simdjson.h>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {

struct JsonLine::Parser {
  simdjson::dom::parser parser;
  simdjson::simdjson_result<simdjson::dom::element> result;
  simdjson::dom::object object;
};

JsonLine::JsonLine() : parser_(std::make_unique<Parser>()) {}
JsonLine::~JsonLine() = default;

std::string_view JsonLine::string_field(std::string_view line, std::string_view field) {
  parser_->result = parser_->parser.parse(line.data(), line.size());
  return field_of(line, field);
}

std::string_view JsonLine::padded_string_field(std::string_view line, std::string_view field) {
  parser_->result = parser_->parser.parse(line.data(), line.size(), false);
  return field_of(line, field);
}

void JsonLine::need_object(std::string_view line) {
  const auto& parsed = parser_->result;
  const simdjson::error_code broken = parsed.error();
  require_data(broken == simdjson::SUCCESS, "expected a JSON object, got {}: {}",
               simdjson::error_message(broken), clipped(line, 60));
  require_data(parsed.get_object().get(parser_->object) == simdjson::SUCCESS,
               "expected a JSON object, got {}", clipped(line, 60));
}

std::string_view JsonLine::field_of(std::string_view line, std::string_view field) {
  need_object(line);
  simdjson::dom::element value;
  require_data(parser_->object.at_key(field).get(value) == simdjson::SUCCESS,
               "expected the key '{}', which the object does not have", field);
  std::string_view text;
  require_data(value.get_string().get(text) == simdjson::SUCCESS, "key '{}': expected a string",
               field);
  return text;
}

std::optional<std::string_view> JsonLine::find_string(std::string_view field) const {
  std::string_view text;
  if (parser_->object.at_key(field).get_string().get(text) != simdjson::SUCCESS) return {};
  return text;
}

std::optional<double> JsonLine::find_number(std::string_view field) const {
  double number = 0;
  if (parser_->object.at_key(field).get_double().get(number) != simdjson::SUCCESS) return {};
  return number;
}

namespace {

using Kind = JsonField::Kind;

// `json` holds the text of what has none of its own.
void take_value(const simdjson::dom::element& value, JsonField& field, std::string& json) {
  switch (value.type()) {
    case simdjson::dom::element_type::NULL_VALUE:
      field.kind = Kind::null;
      return;
    case simdjson::dom::element_type::BOOL:
      field.kind = Kind::boolean;
      field.boolean = value.get_bool().value_unsafe();
      return;
    case simdjson::dom::element_type::INT64:
      field.kind = Kind::integer;
      field.integer = value.get_int64().value_unsafe();
      return;
    case simdjson::dom::element_type::STRING:
      field.kind = Kind::string;
      field.text = value.get_string().value_unsafe();
      return;
    case simdjson::dom::element_type::DOUBLE:
      field.kind = Kind::real;
      field.real = value.get_double().value_unsafe();
      break;
    default:
      field.kind = Kind::json;
  }
  json = simdjson::minify(value);
  field.text = json;
}

}  // namespace

void JsonLine::each_padded_field(std::string_view line, FunctionRef<void(const JsonField&)> use) {
  parser_->result = parser_->parser.parse(line.data(), line.size(), false);
  need_object(line);
  std::string json;
  for (const simdjson::dom::key_value_pair& pair : parser_->object) {
    JsonField field;
    field.key = pair.key;
    take_value(pair.value, field, json);
    use(field);
  }
}

}  // namespace tephra
