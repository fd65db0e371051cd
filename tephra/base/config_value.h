// SPDX-License-Identifier: Apache-2.0
// What a config file holds, with the line each value stands on. config.h is what others use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tephra {

struct ConfigValue {
  using List = std::vector<ConfigValue>;
  using Table = std::vector<std::pair<std::string, ConfigValue>>;  // in the order of the file

  // The last alternative is a TOML value that no field takes, such as a date.
  struct Other {};
  std::variant<bool, int64_t, double, std::string, List, Table, Other> value = Table{};
  std::string where;  // "train.toml:12", or the --set that gave it

  bool is_table() const { return std::holds_alternative<Table>(value); }
  bool is_list() const { return std::holds_alternative<List>(value); }
  Table& table() { return std::get<Table>(value); }
  const Table& table() const { return std::get<Table>(value); }
  List& list() { return std::get<List>(value); }
  const List& list() const { return std::get<List>(value); }

  ConfigValue* find(std::string_view key);  // of a table; null when absent
  const ConfigValue* find(std::string_view key) const;
};

const char* kind_of(const ConfigValue& value);  // "an integer", "a table", ... for messages
std::string to_toml(const ConfigValue& value);  // on one line; reads back to the same value

// The tables of a TOML text. A text that is none is Fault::usage with line and column.
ConfigValue parse_toml(std::string_view text, const std::string& where);

// `a.b.0.c=value`: the value as TOML, or as a string when it is no TOML value; numbers in the path
// are elements of lists.
void apply_override(ConfigValue& root, const std::string& assignment);

}  // namespace tephra
