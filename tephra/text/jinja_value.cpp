// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_value.h"

#include "tephra/text/jinja_budget.h"

namespace tephra::jinja {

Value Value::undefined(std::string why) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(why))};
  return value;
}

Value Value::text(std::string_view bytes) {
  return std::make_shared<const Text>(Text{std::string(bytes), false});
}

int64_t Value::integer() const { return is_bool() ? int64_t{boolean()} : std::get<int64_t>(data_); }

double Value::number() const {
  return is_float() ? std::get<double>(data_) : static_cast<double>(integer());
}

std::string Value::why_undefined() const {
  const auto& why = std::get<Undefined>(data_).why;
  return why ? *why : "the value is undefined";
}

bool Value::same_as(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  if (is_undefined()) return std::get<Undefined>(data_).why == std::get<Undefined>(other.data_).why;
  if (is_none()) return true;
  if (is_integral()) return integer() == other.integer();
  if (is_float()) return number() == other.number();
  if (is_text()) return &text() == &other.text() || bytes() == other.bytes();
  if (is_sequence()) {
    const bool empty_tuple = sequence().flavour == Flavour::tuple && sequence().items.empty();
    return &sequence() == &other.sequence() ||
           (empty_tuple && other.sequence().flavour == Flavour::tuple &&
            other.sequence().items.empty());
  }
  if (is_dict()) return &dict() == &other.dict();
  return &object() == &other.object();
}

int Value::depth() const {
  if (is_sequence()) return sequence().depth;
  if (is_dict()) return dict().depth;
  return is_object() ? object().depth() : 0;
}

std::string Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_text()) return text().markup ? "Markup" : "str";
  if (is_dict()) return "dict";
  if (is_object()) return object().type_name();
  constexpr const char* kNames[] = {"list",      "tuple",       "range",
                                    "dict_keys", "dict_values", "dict_items"};
  return kNames[static_cast<size_t>(sequence().flavour)];
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): overriders take it
Value Object::call(Runtime&, Arguments) { fail("a {} cannot be called", type_name()); }

std::string Object::printed(Runtime&) {
  fail("a {} has no text of its own{}", type_name(),
       type_name() == "generator" ? "; write |list or |join behind it" : "");
}

bool truthy(const Value& value) {
  if (value.is_undefined() || value.is_none()) return false;
  if (value.is_integral()) return value.integer() != 0;
  if (value.is_float()) return value.number() != 0;
  if (value.is_text()) return !value.bytes().empty();
  if (value.is_sequence()) return !value.sequence().items.empty();
  if (value.is_dict()) return !value.dict().pairs.empty();
  return true;
}

}  // namespace tephra::jinja
