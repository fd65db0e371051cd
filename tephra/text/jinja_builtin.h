// SPDX-License-Identifier: Apache-2.0
// Filters, tests, methods and functions: a name, a signature, a function. The tables are the list
// of what is supported; a name outside of them is an error that suggests the nearest one.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/text/jinja_value.h"

namespace tephra::jinja {

class Runtime;

// One call with its arguments sorted into the parameters of the signature.
struct Call {
  Runtime& runtime;
  const Value& self;
  std::string_view name;
  std::vector<std::optional<Value>> given = {};
  Items more = {};                                             // behind the last parameter: *
  std::vector<std::pair<std::string, Value>> more_named = {};  // **

  bool has(size_t i) const { return given[i].has_value(); }
  bool has_not_none(size_t i) const { return has(i) && !given[i]->is_none(); }
  const Value& at(size_t i) const { return *given[i]; }

  // The argument as Python's functions take it; another type fails.
  int64_t integer(size_t i) const;
  int64_t integer_or(size_t i, int64_t fallback) const;
  const std::string& text(size_t i) const;
  std::string text_or(size_t i, std::string_view fallback) const;
  bool truth_or(size_t i, bool fallback) const;
};

struct Builtin {
  const char* name;
  // Names of the parameters behind the value itself: "a! b * **". "!" marks one that must be
  // given, "$" one that cannot be given by name; "*" and "**" take what is left.
  const char* parameters;
  Value (*run)(Call& call);
};

std::span<const Builtin> filters();
std::span<const Builtin> tests();
std::span<const Builtin> text_methods();
std::span<const Builtin> sequence_methods();
std::span<const Builtin> tuple_methods();
std::span<const Builtin> dict_methods();
std::span<const Builtin> functions();

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name);
// "; did you mean 'x'?" or nothing.
std::string suggestion(std::string_view name, std::span<const Builtin> table);

Value run_builtin(Runtime& runtime, const Builtin& builtin, const Value& self, Arguments arguments);

}  // namespace tephra::jinja
