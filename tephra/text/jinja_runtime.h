// SPDX-License-Identifier: Apache-2.0
// What running a template needs of Python: text of values, equality and order, operators, lookup
// of attributes and items, iteration, calls.
#pragma once

#include <ctime>
#include <functional>
#include <string>
#include <string_view>

#include "tephra/text/jinja_budget.h"
#include "tephra/text/jinja_builtin.h"
#include "tephra/text/jinja_value.h"

namespace tephra::jinja {

using Clock = std::function<std::time_t()>;

class Runtime {
 public:
  Runtime(const Limits& limits, Clock clock) : budget(limits), clock_(std::move(clock)) {}

  Budget budget;

  std::string str(const Value& value);
  std::string repr(const Value& value);

  bool equal(const Value& a, const Value& b);
  // -1, 0, 1; fails for values without an order between them, as `op` asks for.
  int compare(const Value& a, const Value& b, std::string_view op);
  bool contains(const Value& container, const Value& item);

  Value binary(std::string_view op, const Value& a, const Value& b);
  Value negated(const Value& value);

  Value attribute(const Value& value, std::string_view name);  // value.name
  Value item(const Value& value, const Value& key);            // value[key]
  Value slice(const Value& value, const Value* start, const Value* stop, const Value* step);
  const Value* find(const Dict& dict, const Value& key);  // fails for a key without a hash
  Value dict_of(const Pairs& pairs);  // later pairs of the same key win, as in Python

  Items items(const Value& iterable);  // all of them; fails for what has none
  Value first_item(const Value& iterable, bool& any);
  bool is_iterable(const Value& value) const;
  int64_t length(const Value& value);
  Value call(const Value& callee, Arguments arguments);

  Value call_filter(std::string_view name, const Value& value, Arguments arguments);
  bool call_test(std::string_view name, const Value& value, Arguments arguments);

  // Python's % and str.format on text.
  Value percent(const Value& pattern, const Value& arguments);
  Value braces(const Value& pattern, const Arguments& arguments);

  std::time_t now() const { return clock_(); }
  // Remembers an object that a cycle could go through, to empty it in the end.
  void keep(std::shared_ptr<Object> object) { kept_objects.push_back(std::move(object)); }

 protected:
  std::vector<std::shared_ptr<Object>> kept_objects;

 private:
  void append_repr(std::string& out, const Value& value);
  Value method(const Value& value, std::string_view name);
  Value missing_attribute(const Value& value, std::string_view name) const;
  Value text_item(const Value& value, int64_t index);

  Clock clock_;
};

// json.dumps with ensure_ascii=False.
struct JsonStyle {
  std::optional<std::string> indent;  // of one level
  std::string item_separator = ", ", key_separator = ": ";
  bool ensure_ascii = false;
  bool sort_keys = false;
};
std::string json_text(Runtime& runtime, const Value& value, const JsonStyle& style);

}  // namespace tephra::jinja
