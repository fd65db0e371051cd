// SPDX-License-Identifier: Apache-2.0
// JSON values. Parsing is strict (UTF-8, no duplicate keys but where asked, bounded depth), done by
// nlohmann-json, which only json.cpp includes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tephra {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order of the file

  Json() = default;                                        // null
  Json(bool value) : value_(value) {}                      // NOLINT: values read as JSON
  Json(int value) : value_(int64_t{value}) {}              // NOLINT
  Json(int64_t value) : value_(value) {}                   // NOLINT
  Json(double value) : value_(value) {}                    // NOLINT
  Json(const char* value) : value_(std::string(value)) {}  // NOLINT
  Json(std::string value) : value_(std::move(value)) {}    // NOLINT
  Json(Array value) : value_(std::move(value)) {}          // NOLINT
  Json(Object value) : value_(std::move(value)) {}         // NOLINT

  // `where` names the source in error messages, which give line and column. Fault::data.
  enum class Repeats { refused, last };  // of a key in one object: an error, or the last counts
  static Json parse(std::string_view text, const std::string& where, int max_depth = 64,
                    Repeats repeats = Repeats::refused);

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_int() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_int() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  const char* kind() const;  // "an integer", "a string", ... for messages

  // The value; another kind is an internal error, so ask first or use Fields.
  bool boolean() const { return std::get<bool>(value_); }
  int64_t integer() const { return std::get<int64_t>(value_); }
  double number() const;
  const std::string& string() const { return std::get<std::string>(value_); }
  const Array& array() const { return std::get<Array>(value_); }
  Array& array() { return std::get<Array>(value_); }
  const Object& object() const { return std::get<Object>(value_); }
  Object& object() { return std::get<Object>(value_); }

  const Json* find(std::string_view key) const;  // of an object; null when absent
  Json& operator[](std::string_view key);        // of an object (or null, which becomes one)
  void push_back(Json value);                    // to an array (or null)

  // indent < 0: one line. Numbers read back to the same value and kind; NaN and infinities, which
  // JSON does not have, become null, and bytes that are not UTF-8 become U+FFFD.
  std::string dump(int indent = -1) const;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

// Typed access to the keys of one object. A key of the wrong type is a Fault::data that says:
// where, key, expected, got. An integer is accepted where a number is asked; 2048.0 is not an
// integer.
class Fields {
 public:
  Fields(const Json& object, std::string where);  // does not own the object
  Fields(Json&& object, std::string where) = delete;

  bool has(std::string_view key) const;  // present and not null
  int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::string string(std::string_view key) const;
  const Json::Array& array(std::string_view key) const;
  Fields object(std::string_view key) const;

  // The default when absent or null; still an error when of the wrong type.
  int64_t integer_or(std::string_view key, int64_t fallback) const;
  double number_or(std::string_view key, double fallback) const;
  bool boolean_or(std::string_view key, bool fallback) const;
  std::string string_or(std::string_view key, const std::string& fallback) const;

  const std::string& where() const { return where_; }
  const Json& json() const { return *object_; }

 private:
  const Json* object_;
  std::string where_;
};

}  // namespace tephra
