// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_runtime.h"

#include <algorithm>
#include <cmath>

#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

bool is_view(const Value& value) {
  return value.is_sequence() &&
         (value.sequence().flavour == Flavour::keys || value.sequence().flavour == Flavour::items);
}

void require_hashable(const Value& key) {
  const bool plain_tuple = key.is_sequence() && (key.sequence().flavour == Flavour::tuple ||
                                                 key.sequence().flavour == Flavour::range);
  if (plain_tuple) {
    for (const Value& item : key.sequence().items) require_hashable(item);
  } else if (key.is_sequence() || key.is_dict()) {
    fail("a {} cannot be a dict's key", key.type_name());
  }
}

// Exact also where an integer is beyond the integers a double holds.
int compare_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  }
  const long double x =
      a.is_float() ? static_cast<long double>(a.number()) : static_cast<long double>(a.integer());
  const long double y =
      b.is_float() ? static_cast<long double>(b.number()) : static_cast<long double>(b.integer());
  return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;  // 2: unordered
}

std::string range_text(const Sequence& range) {
  if (range.range_step == 1) return format("range({}, {})", range.range_start, range.range_stop);
  return format("range({}, {}, {})", range.range_start, range.range_stop, range.range_step);
}

}  // namespace

std::string Runtime::str(const Value& value) {
  if (value.is_text()) {
    budget.step(static_cast<int64_t>(value.bytes().size()) / 64);
    return value.bytes();
  }
  if (value.is_undefined()) return "";
  return repr(value);
}

std::string Runtime::repr(const Value& value) {
  std::string out;
  append_repr(out, value);
  return out;
}

void Runtime::append_repr(std::string& out, const Value& value) {
  const size_t before = out.size();
  budget.step();
  if (value.is_undefined()) {
    out += "Undefined";
  } else if (value.is_none()) {
    out += "None";
  } else if (value.is_bool()) {
    out += value.boolean() ? "True" : "False";
  } else if (value.is_int()) {
    out += std::to_string(value.integer());
  } else if (value.is_float()) {
    out += float_text(value.number());
  } else if (value.is_text()) {
    const std::string text = python_quoted(value.bytes());
    out += value.text().markup ? "Markup(" + text + ")" : text;
  } else if (value.is_object()) {
    out += value.object().printed(*this);
  } else if (value.is_dict()) {
    out += '{';
    for (const auto& [key, item] : value.dict().pairs) {
      if (out.size() > before + 1) out += ", ";
      append_repr(out, key);
      out += ": ";
      append_repr(out, item);
    }
    out += '}';
  } else {
    const Sequence& sequence = value.sequence();
    if (sequence.flavour == Flavour::range) {
      out += range_text(sequence);
      return;
    }
    const bool tuple = sequence.flavour == Flavour::tuple;
    const bool view = sequence.flavour != Flavour::list && !tuple;
    if (view) out += value.type_name() + "(";
    out += tuple ? '(' : '[';
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) out += ", ";
      append_repr(out, sequence.items[i]);
    }
    if (tuple && sequence.items.size() == 1) out += ',';
    out += tuple ? ')' : ']';
    if (view) out += ')';
  }
  if (value.depth() <= 1) budget.bytes(static_cast<int64_t>(out.size() - before));
}

bool Runtime::equal(const Value& a, const Value& b) {
  budget.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.is_text() && b.is_text()) {
    budget.step(static_cast<int64_t>(a.bytes().size()) / 64);
    return a.bytes() == b.bytes();
  }
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_object() || b.is_object()) return a.is_object() && b.is_object() && a.same_as(b);
  if (a.is_dict() && b.is_dict()) {
    const Pairs& pairs = a.dict().pairs;
    return pairs.size() == b.dict().pairs.size() &&
           std::all_of(pairs.begin(), pairs.end(), [&](const auto& pair) {
             const Value* other = find(b.dict(), pair.first);
             return other != nullptr && equal(pair.second, *other);
           });
  }
  if (!a.is_sequence() || !b.is_sequence()) return false;
  const Sequence &x = a.sequence(), &y = b.sequence();
  if (x.items.size() != y.items.size()) return false;
  if (is_view(a) && is_view(b)) {  // as sets
    return std::all_of(x.items.begin(), x.items.end(),
                       [&](const Value& item) { return contains(b, item); });
  }
  if (x.flavour != y.flavour) return false;
  if (x.flavour == Flavour::values) return &x == &y;
  for (size_t i = 0; i < x.items.size(); ++i) {
    if (!equal(x.items[i], y.items[i])) return false;
  }
  return true;
}

int Runtime::compare(const Value& a, const Value& b, std::string_view op) {
  budget.step();
  if (a.is_number() && b.is_number()) return compare_numbers(a, b);
  if (a.is_text() && b.is_text()) {
    budget.step(static_cast<int64_t>(a.bytes().size()) / 64);
    const int order = a.bytes().compare(b.bytes());  // UTF-8 sorts as its code points
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  if (a.is_undefined()) fail("{}", a.why_undefined());
  if (b.is_undefined()) fail("{}", b.why_undefined());
  const bool sequences =
      a.is_sequence() && b.is_sequence() && a.sequence().flavour == b.sequence().flavour &&
      (a.sequence().flavour == Flavour::list || a.sequence().flavour == Flavour::tuple);
  if (!sequences) {
    fail("'{}' is not defined between {} and {}", op, a.type_name(), b.type_name());
  }
  const Items &x = a.sequence().items, &y = b.sequence().items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!equal(x[i], y[i])) return compare(x[i], y[i], op);
  }
  return x.size() < y.size() ? -1 : x.size() > y.size() ? 1 : 0;
}

bool Runtime::contains(const Value& container, const Value& item) {
  if (container.is_text()) {
    if (!item.is_text()) {
      fail("'in' of a str needs a str on its left, got {}",
           item.is_undefined() ? item.why_undefined() : item.type_name());
    }
    budget.step(static_cast<int64_t>(container.bytes().size()) / 64);
    return find_part(container.bytes(), item.bytes()) != std::string::npos;
  }
  if (container.is_dict()) return find(container.dict(), item) != nullptr;
  if (container.is_sequence()) {
    const Items& all = container.sequence().items;
    return std::any_of(all.begin(), all.end(),
                       [&](const Value& each) { return each.same_as(item) || equal(each, item); });
  }
  if (!is_iterable(container))
    fail("'in' needs something to look into, got {}", container.type_name());
  const Items all = items(container);
  return std::any_of(all.begin(), all.end(), [&](const Value& each) { return equal(each, item); });
}

const Value* Runtime::find(const Dict& dict, const Value& key) {
  require_hashable(key);
  budget.step(1 + static_cast<int64_t>(dict.pairs.size()) / 8);
  for (const auto& [name, value] : dict.pairs) {
    if (key.is_text() && name.is_text() ? key.bytes() == name.bytes() : equal(name, key)) {
      return &value;
    }
  }
  return nullptr;
}

Value Runtime::dict_of(const Pairs& pairs) {
  Pairs unique;
  for (const auto& pair : pairs) {
    require_hashable(pair.first);
    const auto same = std::find_if(unique.begin(), unique.end(), [&](const auto& known) {
      return equal(known.first, pair.first);
    });
    if (same != unique.end()) {
      same->second = pair.second;
    } else {
      unique.push_back(pair);
    }
  }
  return budget.dict(std::move(unique));
}

bool Runtime::is_iterable(const Value& value) const {
  if (value.is_object()) return dynamic_cast<Generator*>(&value.object()) != nullptr;
  return value.is_text() || value.is_sequence() || value.is_dict() || value.is_undefined();
}

Items Runtime::items(const Value& iterable) {
  Items out;
  if (iterable.is_sequence()) {
    out = iterable.sequence().items;
  } else if (iterable.is_dict()) {
    for (const auto& [key, value] : iterable.dict().pairs) out.push_back(key);
  } else if (iterable.is_text()) {
    std::string_view rest = iterable.bytes();
    budget.bytes(static_cast<int64_t>(rest.size() * (sizeof(Value) + sizeof(Text))));
    while (!rest.empty()) {
      const size_t length = byte_offset(rest, 1);
      out.push_back(budget.text(std::string(rest.substr(0, length))));
      rest.remove_prefix(length);
    }
  } else if (is_iterable(iterable)) {
    if (iterable.is_object()) {
      auto& generator = dynamic_cast<Generator&>(iterable.object());
      while (const Value* next = generator.next()) out.push_back(*next);
    }
  } else {
    fail("a {} cannot be gone through", iterable.type_name());
  }
  budget.bytes(static_cast<int64_t>(out.size() * sizeof(Value)));
  return out;
}

Value Runtime::first_item(const Value& iterable, bool& any) {
  if (iterable.is_object() && is_iterable(iterable)) {
    const Value* next = dynamic_cast<Generator&>(iterable.object()).next();
    any = next != nullptr;
    return any ? *next : Value();
  }
  if (iterable.is_sequence()) {
    any = !iterable.sequence().items.empty();
    return any ? iterable.sequence().items[0] : Value();
  }
  Items all = items(iterable);
  any = !all.empty();
  return any ? all[0] : Value();
}

int64_t Runtime::length(const Value& value) {
  if (value.is_text()) return count_code_points(value.bytes());
  if (value.is_sequence()) return static_cast<int64_t>(value.sequence().items.size());
  if (value.is_dict()) return static_cast<int64_t>(value.dict().pairs.size());
  if (value.is_undefined()) return 0;
  if (value.is_object() && value.object().type_name() == "LoopContext") {
    return attribute(value, "length").integer();
  }
  fail("a {} has no length{}", value.type_name(),
       value.type_name() == "generator" ? "; write |list before |length" : "");
}

Value Runtime::call(const Value& callee, Arguments arguments) {
  budget.step();
  if (callee.is_undefined()) fail("{}", callee.why_undefined());
  if (!callee.is_object() || !callee.object().callable()) {
    fail("a {} cannot be called", callee.type_name());
  }
  return callee.object().call(*this, std::move(arguments));
}

Value Runtime::call_filter(std::string_view name, const Value& value, Arguments arguments) {
  const Builtin* builtin = find_builtin(filters(), name);
  if (builtin == nullptr) fail("there is no filter '{}'{}", name, suggestion(name, filters()));
  return run_builtin(*this, *builtin, value, std::move(arguments));
}

bool Runtime::call_test(std::string_view name, const Value& value, Arguments arguments) {
  const Builtin* builtin = find_builtin(tests(), name);
  if (builtin == nullptr) fail("there is no test '{}'{}", name, suggestion(name, tests()));
  return truthy(run_builtin(*this, *builtin, value, std::move(arguments)));
}

}  // namespace tephra::jinja
