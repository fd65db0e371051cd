// SPDX-License-Identifier: Apache-2.0
// The only file that includes simdjson.
#include "tephra/data/json_line.h"

#include <simdjson.h>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {

struct JsonLine::Parser {
  simdjson::dom::parser parser;
};

JsonLine::JsonLine() : parser_(std::make_unique<Parser>()) {}
JsonLine::~JsonLine() = default;

std::string_view JsonLine::string_field(std::string_view line, std::string_view field) {
  simdjson::dom::object object;
  const auto parsed = parser_->parser.parse(line.data(), line.size());
  const simdjson::error_code broken = parsed.error();
  require_data(broken == simdjson::SUCCESS, "expected a JSON object, got {}: {}",
               simdjson::error_message(broken), clipped(line, 60));
  require_data(parsed.get_object().get(object) == simdjson::SUCCESS,
               "expected a JSON object, got {}", clipped(line, 60));
  simdjson::dom::element value;
  require_data(object.at_key(field).get(value) == simdjson::SUCCESS,
               "expected the key '{}', which the object does not have", field);
  std::string_view text;
  require_data(value.get_string().get(text) == simdjson::SUCCESS, "key '{}': expected a string",
               field);
  return text;
}

}  // namespace tephra
