// SPDX-License-Identifier: Apache-2.0
#include "tephra/base/config_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += format("\\u{:04x}", byte);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = format("{}", value);
  if (text.find_first_of(".ein") == std::string::npos) text += ".0";
  return text;
}

ConfigValue override_value(const std::string& text, const std::string& where) {
  ConfigValue result{.value = text, .where = where};
  try {
    const ConfigValue root = parse_toml("value = " + text, where);
    if (root.table().size() == 1) result.value = root.table()[0].second.value;
  } catch (const Error&) {  // then it is a string without quotes
  }
  return result;
}

ConfigValue& element_at(ConfigValue& list, std::string_view name, const std::string& where) {
  size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  require(is_number && index < list.list().size(),
          "{}: expected an element of a list of {} (0 to {}), got '{}'", where, list.list().size(),
          static_cast<int64_t>(list.list().size()) - 1, name);
  return list.list()[index];
}

// The value under `name`, made when a table has none yet.
ConfigValue& step_into(ConfigValue& at, std::string_view name, const std::string& where) {
  if (at.is_list()) return element_at(at, name, where);
  require(at.is_table(), "{}: '{}' lies within {}, not a table", where, name, kind_of(at));
  if (ConfigValue* found = at.find(name)) return *found;
  at.table().emplace_back(std::string(name), ConfigValue{.where = where});
  return at.table().back().second;
}

}  // namespace

const ConfigValue* ConfigValue::find(std::string_view key) const {
  for (const auto& [name, entry] : table()) {
    if (name == key) return &entry;
  }
  return nullptr;
}

ConfigValue* ConfigValue::find(std::string_view key) {
  return const_cast<ConfigValue*>(std::as_const(*this).find(key));
}

const char* kind_of(const ConfigValue& value) {
  constexpr const char* kKinds[] = {"true or false", "an integer", "a number",      "a string",
                                    "a list",        "a table",    "a date or time"};
  return kKinds[value.value.index()];
}

std::string to_toml(const ConfigValue& v) {
  if (const auto* flag = std::get_if<bool>(&v.value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<int64_t>(&v.value)) return format("{}", *integer);
  if (const auto* number = std::get_if<double>(&v.value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&v.value)) return toml_string(*text);
  std::string inside;
  const auto add = [&](const std::string& piece) {
    inside += (inside.empty() ? "" : ", ") + piece;
  };
  if (v.is_list()) {
    for (const ConfigValue& element : v.list()) add(to_toml(element));
    return "[" + inside + "]";
  }
  TEPHRA_ASSERT(v.is_table(), "a date is never kept as a value");
  for (const auto& [key, entry] : v.table()) add(format("{} = {}", key, to_toml(entry)));
  return "{" + inside + "}";
}

void apply_override(ConfigValue& root, const std::string& assignment) {
  const std::string where = format("--set {}", clipped(assignment, 80));
  const size_t equals = assignment.find('=');
  require(equals != std::string::npos && equals > 0,
          "{}: expected KEY=VALUE, such as optim.lr=1e-3", where);
  constexpr size_t kMostNames = 64;
  ConfigValue* at = &root;
  const std::string_view key = trim(std::string_view(assignment).substr(0, equals));
  const std::vector<std::string_view> names = split(key, '.');
  require(names.size() <= kMostNames, "{}: a key of more than {} names", where, kMostNames);
  for (const std::string_view name : names) {
    require(!name.empty(), "{}: a name in the key is empty", where);
    at = &step_into(*at, name, where);
  }
  *at = override_value(std::string(trim(assignment.substr(equals + 1))), where);
}

}  // namespace tephra
