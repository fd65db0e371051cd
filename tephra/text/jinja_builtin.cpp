// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_builtin.h"

#include <algorithm>
#include <map>

#include "tephra/base/text.h"
#include "tephra/text/jinja_runtime.h"

namespace tephra::jinja {
namespace {

struct Signature {
  std::vector<std::string_view> names;
  std::vector<bool> needed, by_name;
  bool more = false, more_named = false;
};

Signature signature_of(const Builtin& builtin) {
  Signature signature;
  for (std::string_view word : split(builtin.parameters, ' ')) {
    if (word == "*") {
      signature.more = true;
    } else if (word == "**") {
      signature.more_named = true;
    } else if (!word.empty()) {
      signature.needed.push_back(word.ends_with('!'));
      if (word.ends_with('!')) word.remove_suffix(1);
      signature.by_name.push_back(!word.starts_with('$'));
      if (word.starts_with('$')) word.remove_prefix(1);
      signature.names.push_back(word);
    }
  }
  return signature;
}

void place_named(Call& call, const Signature& signature,
                 const std::vector<std::pair<std::string, Value>>& named) {
  for (const auto& [name, value] : named) {
    const auto at = std::find(signature.names.begin(), signature.names.end(), name);
    const auto i = static_cast<size_t>(at - signature.names.begin());
    if (at != signature.names.end() && signature.by_name[i]) {
      if (call.has(i)) fail("'{}' is given its argument '{}' twice", call.name, name);
      call.given[i] = value;
    } else if (signature.more_named) {
      call.more_named.emplace_back(name, value);
    } else {
      fail("'{}' has no argument named '{}'", call.name, clipped(name, 60));
    }
  }
}

}  // namespace

int64_t Call::integer(size_t i) const {
  if (at(i).is_undefined()) fail("'{}': {}", name, at(i).why_undefined());
  if (!at(i).is_integral()) {
    fail("'{}' needs an integer as argument {}, got {}", name, i + 1, at(i).type_name());
  }
  return at(i).integer();
}

int64_t Call::integer_or(size_t i, int64_t fallback) const {
  return has(i) ? integer(i) : fallback;
}

const std::string& Call::text(size_t i) const {
  if (at(i).is_undefined()) fail("'{}': {}", name, at(i).why_undefined());
  if (!at(i).is_text()) {
    fail("'{}' needs a str as argument {}, got {}", name, i + 1, at(i).type_name());
  }
  return at(i).bytes();
}

std::string Call::text_or(size_t i, std::string_view fallback) const {
  return has(i) ? text(i) : std::string(fallback);
}

bool Call::truth_or(size_t i, bool fallback) const { return has(i) ? truthy(at(i)) : fallback; }

const Builtin* find_builtin(std::span<const Builtin> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& row) { return name == row.name; });
  return found == table.end() ? nullptr : &*found;
}

std::string suggestion(std::string_view name, std::span<const Builtin> table) {
  std::vector<std::string> names;
  for (const Builtin& row : table) names.emplace_back(row.name);
  const auto near = nearest(clipped(name, 60), names);
  return near ? format("; did you mean '{}'?", *near) : std::string();
}

Value run_builtin(Runtime& runtime, const Builtin& builtin, const Value& self,
                  Arguments arguments) {
  // Most of them read their texts, also those that make nothing of them.
  runtime.budget.scan(self);
  for (const Value& argument : arguments.positional) runtime.budget.scan(argument);
  for (const auto& [name, argument] : arguments.named) runtime.budget.scan(argument);
  const Signature signature = signature_of(builtin);
  Call call{.runtime = runtime, .self = self, .name = builtin.name};
  call.given.resize(signature.names.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < call.given.size()) {
      call.given[i] = std::move(arguments.positional[i]);
    } else if (signature.more) {
      call.more.push_back(std::move(arguments.positional[i]));
    } else {
      fail("'{}' takes at most {} arguments, got {}", builtin.name, call.given.size(),
           arguments.positional.size());
    }
  }
  place_named(call, signature, arguments.named);
  for (size_t i = 0; i < call.given.size(); ++i) {
    if (signature.needed[i] && !call.has(i)) {
      fail("'{}' needs the argument '{}'", builtin.name, signature.names[i]);
    }
  }
  return builtin.run(call);
}

}  // namespace tephra::jinja
