// SPDX-License-Identifier: Apache-2.0
// The only file that includes toml++: a TOML text as ConfigValues with their lines.
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include <algorithm>

#include "tephra/base/config_value.h"
#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

// toml++ hands tables out sorted by key; the file's order is that of their places in it.
struct Place {
  toml::source_index line = 0, column = 0;
  auto operator<=>(const Place&) const = default;
};

Place place_of(const toml::source_region& source) {
  return {source.begin.line, source.begin.column};
}

ConfigValue convert(const toml::node& node, const std::string& where);

ConfigValue::Table convert_table(const toml::table& table, const std::string& where) {
  std::vector<std::pair<Place, const toml::key*>> keys;
  for (const auto& entry : table) {
    keys.emplace_back(place_of(entry.first.source()), &entry.first);
  }
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  ConfigValue::Table result;
  for (const auto& [place, key] : keys) {
    result.emplace_back(std::string(key->str()), convert(*table.get(key->str()), where));
    result.back().second.where = format("{}:{}", where, place.line);
  }
  return result;
}

ConfigValue convert(const toml::node& node, const std::string& where) {
  ConfigValue result;
  result.where = format("{}:{}", where, node.source().begin.line);
  if (const auto* table = node.as_table()) {
    result.value = convert_table(*table, where);
  } else if (const auto* array = node.as_array()) {
    ConfigValue::List list;
    for (const toml::node& element : *array) list.push_back(convert(element, where));
    result.value = std::move(list);
  } else if (const auto* boolean = node.as_boolean()) {
    result.value = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    result.value = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    result.value = number->get();
  } else if (const auto* string = node.as_string()) {
    result.value = string->get();
  } else {
    result.value = ConfigValue::Other{};
  }
  return result;
}

}  // namespace

ConfigValue parse_toml(std::string_view text, const std::string& where) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    throw Error(Fault::usage,
                format("{}:{}:{}: {}", where, error.source().begin.line,
                       error.source().begin.column, clipped(error.description(), 200)),
                "the file must be TOML 1.0: https://toml.io");
  }
  ConfigValue root = convert(parsed.table(), where);
  root.where = where;
  return root;
}

}  // namespace tephra
