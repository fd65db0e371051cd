// SPDX-License-Identifier: Apache-2.0
// value.name, value[key] and value[a:b:c], with jinja2's order: an attribute before an item for
// the dot, an item before an attribute for the brackets.
#include <algorithm>

#include "tephra/base/text.h"
#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

class Method : public Object {
 public:
  Method(Value self, const Builtin& builtin) : self_(std::move(self)), builtin_(builtin) {}
  std::string type_name() const override { return "method"; }
  bool callable() const override { return true; }
  int depth() const override { return self_.depth() + 1; }
  Value call(Runtime& runtime, Arguments arguments) override {
    return run_builtin(runtime, builtin_, self_, std::move(arguments));
  }

 private:
  Value self_;
  const Builtin& builtin_;
};

std::span<const Builtin> methods_of(const Value& value) {
  if (value.is_text()) return text_methods();
  if (value.is_dict()) return dict_methods();
  if (value.is_sequence() && value.sequence().flavour == Flavour::list) return sequence_methods();
  if (value.is_sequence() && value.sequence().flavour <= Flavour::range) return tuple_methods();
  return {};
}

// Methods that would change a value, which jinja2's immutable sandbox takes away, too.
bool changes_value(const Value& value, std::string_view name) {
  constexpr std::string_view kList[] = {"append", "clear",  "extend",  "insert",
                                        "pop",    "remove", "reverse", "sort"};
  constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  if (value.is_dict())
    return std::find(std::begin(kDict), std::end(kDict), name) != std::end(kDict);
  return value.is_sequence() && value.sequence().flavour == Flavour::list &&
         std::find(std::begin(kList), std::end(kList), name) != std::end(kList);
}

// Python has them, this language does not; silence would be a wrong answer.
bool is_foreign(const Value& value, std::string_view name) {
  constexpr std::string_view kText[] = {"casefold", "encode", "expandtabs", "maketrans",
                                        "translate"};
  constexpr std::string_view kNumber[] = {
      "as_integer_ratio", "bit_count", "bit_length", "conjugate",
      "denominator",      "fromhex",   "hex",        "imag",
      "is_integer",       "numerator", "real",       "to_bytes",
      "from_bytes"};
  const auto has = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (value.is_text()) return has(kText);
  if (value.is_dict()) return name == "fromkeys";
  return value.is_number() && has(kNumber);
}

struct Span {
  int64_t begin, end, step;
};

int64_t slice_index(const Value& value) {
  if (!value.is_integral()) fail("a slice needs integers or none, got {}", value.type_name());
  return value.integer();
}

// Python's slice.indices().
Span span_of(int64_t length, const Value* start, const Value* stop, const Value* step) {
  const auto given = [](const Value* value) { return value != nullptr && !value->is_none(); };
  Span span{0, length, given(step) ? slice_index(*step) : 1};
  if (span.step == 0) fail("a slice cannot have a step of 0");
  const bool back = span.step < 0;
  const int64_t low = back ? -1 : 0, high = back ? length - 1 : length;
  const auto clamp = [&](int64_t at) {
    if (at < 0) at = at < -length ? -1 : at + length;
    return std::clamp(at, low, std::max(low, high));
  };
  span.begin = given(start) ? clamp(slice_index(*start)) : (back ? high : low);
  span.end = given(stop) ? clamp(slice_index(*stop)) : (back ? low : high);
  return span;
}

template <class Take>
void walk(const Span& span, Take take) {
  if (span.step > 0) {
    for (int64_t i = span.begin; i < span.end;) {
      take(static_cast<size_t>(i));
      if (span.step >= span.end - i) break;
      i += span.step;
    }
  } else {
    for (int64_t i = span.begin; i > span.end;) {
      take(static_cast<size_t>(i));
      if (span.step <= span.end - i) break;
      i += span.step;
    }
  }
}

}  // namespace

Value Runtime::method(const Value& value, std::string_view name) {
  const Builtin* found = find_builtin(methods_of(value), name);
  if (found == nullptr) return {};
  return std::shared_ptr<Object>(std::make_shared<Method>(value, *found));
}

Value Runtime::missing_attribute(const Value& value, std::string_view name) const {
  if (changes_value(value, name)) {
    return Value::undefined(
        format("'{}' would change a {}; templates cannot", name, value.type_name()));
  }
  return Value::undefined(format("a {} has no attribute '{}'{}", value.type_name(),
                                 clipped(name, 80), suggestion(name, methods_of(value))));
}

Value Runtime::attribute(const Value& value, std::string_view name) {
  budget.step(1 + static_cast<int64_t>(name.size()) / 64);
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (is_foreign(value, name)) {
    fail("the attribute '{}' of a {} is not supported", name, value.type_name());
  }
  if (value.is_object()) {
    Value found = value.object().attribute(*this, name);
    return found.is_undefined() ? missing_attribute(value, name) : found;
  }
  if (changes_value(value, name)) return missing_attribute(value, name);
  if (Value found = method(value, name); !found.is_undefined()) return found;
  if (value.is_dict()) {
    if (const Value* found = find(value.dict(), Value::text(name))) return *found;
  }
  return missing_attribute(value, name);
}

Value Runtime::text_item(const Value& value, int64_t index) {
  const std::string& bytes = value.bytes();
  budget.scan(value);
  const int64_t count = count_code_points(bytes);
  if (index < 0) index += count;
  if (index < 0 || index >= count) {
    return Value::undefined(format("a str of length {} has no element {}", count, index));
  }
  const size_t begin = byte_offset(bytes, index);
  const std::string_view rest = std::string_view(bytes).substr(begin);
  return budget.text(std::string(rest.substr(0, byte_offset(rest, 1))), value.text().markup);
}

Value Runtime::item(const Value& value, const Value& key) {
  budget.step();
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (value.is_dict()) {
    const bool no_hash =
        key.is_dict() || (key.is_sequence() && key.sequence().flavour == Flavour::list);
    if (no_hash) return Value::undefined(format("a dict has no key of type {}", key.type_name()));
    if (const Value* found = find(value.dict(), key)) return *found;
  } else if (key.is_integral() && value.is_text()) {
    return text_item(value, key.integer());
  } else if (key.is_integral() && value.is_sequence() &&
             value.sequence().flavour <= Flavour::range) {
    const Items& all = value.sequence().items;
    const auto count = static_cast<int64_t>(all.size());
    const int64_t index = key.integer() < 0 ? key.integer() + count : key.integer();
    if (index >= 0 && index < count) return all[static_cast<size_t>(index)];
    return Value::undefined(
        format("a {} of length {} has no element {}", value.type_name(), count, key.integer()));
  }
  if (key.is_text()) {
    if (value.is_dict() && !changes_value(value, key.bytes())) {
      if (Value found = method(value, key.bytes()); !found.is_undefined()) return found;
      return Value::undefined(format("a dict has no attribute '{}'", clipped(key.bytes(), 80)));
    }
    return attribute(value, key.bytes());
  }
  return Value::undefined(format("a {} has no element {}", value.type_name(),
                                 key.is_undefined() ? "undefined" : clipped(repr(key), 60)));
}

Value Runtime::slice(const Value& value, const Value* start, const Value* stop, const Value* step) {
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (value.is_text()) {
    const std::u32string points = code_points(value.bytes());
    budget.bytes(static_cast<int64_t>(points.size() * sizeof(char32_t)));
    std::u32string out;
    walk(span_of(static_cast<int64_t>(points.size()), start, stop, step),
         [&](size_t i) { out += points[i]; });
    return budget.text(utf8(out), value.text().markup);
  }
  if (!value.is_sequence() || value.sequence().flavour > Flavour::range) {
    fail("a {} cannot be sliced", value.type_name());
  }
  const Sequence& all = value.sequence();
  const Span span = span_of(static_cast<int64_t>(all.items.size()), start, stop, step);
  Sequence out;
  walk(span, [&](size_t i) { out.items.push_back(all.items[i]); });
  if (all.flavour != Flavour::range) return budget.list(std::move(out.items), all.flavour);
  budget.bytes(static_cast<int64_t>(out.items.size() * sizeof(Value)));
  out.flavour = Flavour::range;
  out.range_start = all.range_start + span.begin * all.range_step;
  out.range_stop = all.range_start + span.end * all.range_step;
  out.range_step = all.range_step * span.step;
  return std::make_shared<const Sequence>(std::move(out));
}

}  // namespace tephra::jinja
