// SPDX-License-Identifier: Apache-2.0
// Typed access to the keys of a JSON object.
#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

// What was found, with its value where that is short.
std::string shown(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_array() || value.is_object()) return value.kind();
  return format("{} ({})", value.kind(), clipped(value.dump(), 60));
}

const Json& get(const Fields& fields, std::string_view key, const char* expected,
                bool (Json::*accepts)() const) {
  const Json* value = fields.json().find(key);
  require_data(value != nullptr, "{}: key '{}': expected {}, but the key is missing",
               fields.where(), key, expected);
  require_data((value->*accepts)(), "{}: key '{}': expected {}, got {}", fields.where(), key,
               expected, shown(*value));
  return *value;
}

}  // namespace

Fields::Fields(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {
  require_data(object.is_object(), "{}: expected an object, got {}", where_, shown(object));
}

bool Fields::has(std::string_view key) const {
  const Json* value = object_->find(key);
  return value != nullptr && !value->is_null();
}

int64_t Fields::integer(std::string_view key) const {
  return get(*this, key, "an integer", &Json::is_int).integer();
}

double Fields::number(std::string_view key) const {
  return get(*this, key, "a number", &Json::is_number).number();
}

bool Fields::boolean(std::string_view key) const {
  return get(*this, key, "true or false", &Json::is_bool).boolean();
}

std::string Fields::string(std::string_view key) const {
  return get(*this, key, "a string", &Json::is_string).string();
}

const Json::Array& Fields::array(std::string_view key) const {
  return get(*this, key, "an array", &Json::is_array).array();
}

Fields Fields::object(std::string_view key) const {
  return Fields(get(*this, key, "an object", &Json::is_object), format("{}: {}", where_, key));
}

int64_t Fields::integer_or(std::string_view key, int64_t fallback) const {
  return has(key) ? integer(key) : fallback;
}

double Fields::number_or(std::string_view key, double fallback) const {
  return has(key) ? number(key) : fallback;
}

bool Fields::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : fallback;
}

std::string Fields::string_or(std::string_view key, const std::string& fallback) const {
  return has(key) ? string(key) : fallback;
}

}  // namespace tephra
