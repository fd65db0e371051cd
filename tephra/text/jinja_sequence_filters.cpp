// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/jinja_sequence_filters.h"

#include <algorithm>

#include "tephra/base/text.h"
#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

Value without_case(Runtime& runtime, const Value& value) {
  return value.is_text() ? runtime.budget.text(lower(value.bytes())) : value;
}

// "a.b.0" reads a, then b of it, then element 0; the fallback stands in wherever that ends.
Value read_path(Runtime& runtime, Value value, const Value& path, const Value& fallback = None()) {
  const auto step = [&](const Value& key) {
    value = runtime.item(value, key);
    if (value.is_undefined() && !fallback.is_none()) value = fallback;
  };
  if (path.is_none()) return value;
  if (!path.is_text()) {
    step(path);
    return value;
  }
  for (const std::string_view part : split(path.bytes(), '.')) {
    const auto index =
        all_of_class(part, CharacterClass::digit) ? parse_integer(part, 10) : std::nullopt;
    step(index ? Value(*index) : Value::text(part));
  }
  return value;
}

void stable_sort(Runtime& runtime, std::vector<std::pair<Value, Value>>& keyed, bool reverse) {
  runtime.budget.bytes(static_cast<int64_t>(keyed.size() * 2 * sizeof(Value)));
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return reverse ? runtime.compare(b.first, a.first, "<") == -1
                   : runtime.compare(a.first, b.first, "<") == -1;
  });
}

Items second_of(const std::vector<std::pair<Value, Value>>& keyed) {
  Items out;
  for (const auto& [key, value] : keyed) out.push_back(value);
  return out;
}

Value extreme(Call& call, bool largest) {
  Runtime& runtime = call.runtime;
  const bool case_sensitive = call.truth_or(0, false);
  const Items items = runtime.items(call.self);
  if (items.empty()) return Value::undefined("there is no aggregated item: the sequence is empty");
  Value best, best_key;
  for (size_t i = 0; i < items.size(); ++i) {
    Value key = call.has_not_none(1) ? read_path(runtime, items[i], call.at(1)) : items[i];
    if (!case_sensitive) key = without_case(runtime, key);
    if (i > 0) {
      const int order = runtime.compare(key, best_key, largest ? ">" : "<");
      if (order != (largest ? 1 : -1)) continue;
    }
    best = items[i];
    best_key = key;
  }
  return best;
}

// map's and select's first argument names what is done with each item.
std::string take_name(Call& call, std::string_view what) {
  if (call.more.empty()) fail("'{}' needs the name of a {}", call.name, what);
  const Value name = call.more[0];
  if (!name.is_text())
    fail("'{}' needs the name of a {}, got {}", call.name, what, name.type_name());
  call.more.erase(call.more.begin());
  return name.bytes();
}

Value selected(Call& call, bool wanted, bool by_attribute) {
  Runtime& runtime = call.runtime;
  if (!truthy(call.self)) return runtime.budget.generator({});
  Value path = None();
  if (by_attribute) {
    if (call.more.empty()) fail("'{}' needs the name of an attribute", call.name);
    path = call.more[0];
    call.more.erase(call.more.begin());
  }
  const bool has_test = !call.more.empty();
  const std::string test = has_test ? take_name(call, "test") : std::string();
  Items out;
  for (Value& item : runtime.items(call.self)) {
    const Value value = by_attribute ? read_path(runtime, item, path) : item;
    const bool holds =
        has_test ? runtime.call_test(test, value, {call.more, call.more_named}) : truthy(value);
    if (holds == wanted) out.push_back(std::move(item));
  }
  return runtime.budget.generator(std::move(out));
}

Value map_attribute(Call& call) {
  Value path = None(), fallback = None();
  for (auto& [name, value] : call.more_named) {
    if (name != "attribute" && name != "default") fail("'map' has no argument named '{}'", name);
    (name == "attribute" ? path : fallback) = value;
  }
  Items out;
  for (const Value& item : call.runtime.items(call.self)) {
    out.push_back(read_path(call.runtime, item, path, fallback));
  }
  return call.runtime.budget.generator(std::move(out));
}

}  // namespace

Value length_filter(Call& call) { return call.runtime.length(call.self); }

Value list_filter(Call& call) { return call.runtime.budget.list(call.runtime.items(call.self)); }

Value first_filter(Call& call) {
  bool any = false;
  const Value first = call.runtime.first_item(call.self, any);
  return any ? first : Value::undefined("there is no first item: the sequence is empty");
}

Value last_filter(Call& call) {
  const bool reversible = call.self.is_sequence() || call.self.is_dict() || call.self.is_text() ||
                          call.self.is_undefined();
  if (!reversible)
    fail("'last' needs a sequence, got {}; write |list before it", call.self.type_name());
  Items items = call.runtime.items(call.self);
  if (items.empty()) return Value::undefined("there is no last item: the sequence is empty");
  return items.back();
}

Value reverse_filter(Call& call) {
  if (call.self.is_text()) {
    std::u32string points = code_points(call.self.bytes());
    std::reverse(points.begin(), points.end());
    return call.runtime.budget.text(utf8(points), call.self.text().markup);
  }
  const bool lazy = !call.self.is_object();
  Items items = call.runtime.items(call.self);
  std::reverse(items.begin(), items.end());
  return lazy ? call.runtime.budget.generator(std::move(items))
              : call.runtime.budget.list(std::move(items));
}

Value join_filter(Call& call) {
  const std::string separator = call.has(0) ? call.runtime.str(call.at(0)) : std::string();
  std::string out;
  bool first = true;
  for (const Value& item : call.runtime.items(call.self)) {
    if (!first) out += separator;
    first = false;
    const size_t before = out.size();
    out +=
        call.runtime.str(call.has_not_none(1) ? read_path(call.runtime, item, call.at(1)) : item);
    call.runtime.budget.bytes(static_cast<int64_t>(out.size() - before + separator.size()));
  }
  return call.runtime.budget.text(std::move(out));
}

Value items_filter(Call& call) {
  if (call.self.is_undefined()) return call.runtime.budget.generator({});
  if (!call.self.is_dict()) fail("'items' needs a mapping, got {}", call.self.type_name());
  Items out;
  for (const auto& [key, value] : call.self.dict().pairs) {
    out.push_back(call.runtime.budget.tuple({key, value}));
  }
  return call.runtime.budget.generator(std::move(out));
}

Value dictsort_filter(Call& call) {
  if (call.self.is_undefined()) fail("'dictsort': {}", call.self.why_undefined());
  if (!call.self.is_dict()) fail("'dictsort' needs a mapping, got {}", call.self.type_name());
  const std::string by = call.text_or(1, "key");
  if (by != "key" && by != "value") fail("'dictsort' sorts by key or by value, got '{}'", by);
  const bool case_sensitive = call.truth_or(0, false);
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : call.self.dict().pairs) {
    const Value& chosen = by == "key" ? key : value;
    keyed.emplace_back(case_sensitive ? chosen : without_case(call.runtime, chosen),
                       call.runtime.budget.tuple({key, value}));
  }
  stable_sort(call.runtime, keyed, call.truth_or(2, false));
  return call.runtime.budget.list(second_of(keyed));
}

Value sort_filter(Call& call) {
  const bool case_sensitive = call.truth_or(1, false);
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : call.runtime.items(call.self)) {
    Items key;
    const auto add = [&](const Value& path) {
      Value part = read_path(call.runtime, item, path);
      key.push_back(case_sensitive ? part : without_case(call.runtime, part));
    };
    if (call.has(2) && call.at(2).is_text()) {
      for (const std::string_view path : split(call.at(2).bytes(), ',')) add(Value::text(path));
    } else {
      add(call.has(2) ? call.at(2) : Value(None()));
    }
    keyed.emplace_back(call.runtime.budget.list(std::move(key)), std::move(item));
  }
  stable_sort(call.runtime, keyed, call.truth_or(0, false));
  return call.runtime.budget.list(second_of(keyed));
}

Value unique_filter(Call& call) {
  const bool case_sensitive = call.truth_or(0, false);
  Items out, seen;
  for (Value& item : call.runtime.items(call.self)) {
    Value key = read_path(call.runtime, item, call.has(1) ? call.at(1) : Value(None()));
    if (!case_sensitive) key = without_case(call.runtime, key);
    (void)call.runtime.find(Dict(), key);  // fails for a key that could not be in a set
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const Value& other) {
      return call.runtime.equal(other, key);
    });
    if (known) continue;
    seen.push_back(key);
    out.push_back(std::move(item));
  }
  return call.runtime.budget.generator(std::move(out));
}

Value min_filter(Call& call) { return extreme(call, false); }
Value max_filter(Call& call) { return extreme(call, true); }

Value sum_filter(Call& call) {
  Value total = call.has(1) ? call.at(1) : Value(int64_t{0});
  if (total.is_text()) fail("'sum' adds numbers and lists; write |join for strings");
  for (const Value& item : call.runtime.items(call.self)) {
    total = call.runtime.binary(
        "+", total, call.has_not_none(0) ? read_path(call.runtime, item, call.at(0)) : item);
  }
  return total;
}

Value map_filter(Call& call) {
  if (!truthy(call.self)) return call.runtime.budget.generator({});
  if (call.more.empty() && !call.more_named.empty() &&
      std::any_of(call.more_named.begin(), call.more_named.end(),
                  [](const auto& named) { return named.first == "attribute"; })) {
    return map_attribute(call);
  }
  const std::string name = take_name(call, "filter");
  Items out;
  for (const Value& item : call.runtime.items(call.self)) {
    out.push_back(call.runtime.call_filter(name, item, {call.more, call.more_named}));
  }
  return call.runtime.budget.generator(std::move(out));
}

Value select_filter(Call& call) { return selected(call, true, false); }
Value reject_filter(Call& call) { return selected(call, false, false); }
Value selectattr_filter(Call& call) { return selected(call, true, true); }
Value rejectattr_filter(Call& call) { return selected(call, false, true); }

Value attr_filter(Call& call) {
  const std::string name = call.runtime.str(call.at(0));
  if (call.self.is_dict()) {  // attributes only, never items
    const Value none = call.runtime.budget.dict({});
    return call.runtime.attribute(none, name);
  }
  return call.runtime.attribute(call.self, name);
}

Value batch_filter(Call& call) {
  const int64_t size = call.integer(0);
  Items out, row;
  for (Value& item : call.runtime.items(call.self)) {
    if (static_cast<int64_t>(row.size()) == size) {
      out.push_back(call.runtime.budget.list(std::exchange(row, {})));
    }
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (call.has_not_none(1)) {
      const int64_t missing = std::max<int64_t>(0, size - static_cast<int64_t>(row.size()));
      call.runtime.budget.bytes(std::min(missing, int64_t{1} << 40) * int64_t{sizeof(Value)});
      row.insert(row.end(), static_cast<size_t>(missing), call.at(1));
    }
    out.push_back(call.runtime.budget.list(std::move(row)));
  }
  return call.runtime.budget.generator(std::move(out));
}

Value slice_filter(Call& call) {
  const int64_t slices = call.integer(0);
  const Items items = call.runtime.items(call.self);
  if (slices == 0) fail("'slice' needs at least 1 slice");
  if (slices < 0) return call.runtime.budget.generator({});
  const auto count = static_cast<int64_t>(items.size());
  const int64_t each = count / slices, longer = count % slices;
  Items out;
  int64_t at = 0;
  for (int64_t i = 0; i < slices; ++i) {
    call.runtime.budget.step();
    const int64_t end = at + each + (i < longer ? 1 : 0);
    Items part(items.begin() + at, items.begin() + end);
    if (call.has_not_none(1) && i >= longer) part.push_back(call.at(1));
    out.push_back(call.runtime.budget.list(std::move(part)));
    at = end;
  }
  return call.runtime.budget.generator(std::move(out));
}

// Groups print and unpack as (grouper, list) tuples; their attributes are those of the tuple here.
Value groupby_filter(Call& call) {
  Runtime& runtime = call.runtime;
  const bool case_sensitive = call.truth_or(2, false);
  std::vector<std::pair<Value, Value>> keyed;
  const auto key_of = [&](const Value& item, bool folded) {
    Value key = read_path(runtime, item, call.at(0), call.has(1) ? call.at(1) : Value(None()));
    return folded ? without_case(runtime, key) : key;
  };
  for (const Value& item : runtime.items(call.self)) {
    keyed.emplace_back(key_of(item, !case_sensitive), item);
  }
  stable_sort(runtime, keyed, false);
  Items out;
  for (size_t begin = 0; begin < keyed.size();) {
    size_t end = begin;
    Items group;
    while (end < keyed.size() && runtime.equal(keyed[end].first, keyed[begin].first)) {
      group.push_back(keyed[end++].second);
    }
    const Value grouper = key_of(keyed[begin].second, false);
    out.push_back(runtime.budget.tuple({grouper, runtime.budget.list(std::move(group))}));
    begin = end;
  }
  return runtime.budget.list(std::move(out));
}

}  // namespace tephra::jinja
