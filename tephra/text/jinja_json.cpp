// SPDX-License-Identifier: Apache-2.0
// json.dumps, byte for byte.
#include <algorithm>
#include <cmath>

#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

class Writer {
 public:
  Writer(Runtime& runtime, const JsonStyle& style) : runtime_(runtime), style_(style) {}

  void value(const Value& value, int level) {
    const size_t before = out.size();
    runtime_.budget.step();
    if (value.is_text()) {
      string(value.bytes());
    } else if (value.is_sequence() && value.sequence().flavour <= Flavour::tuple) {
      array(value.sequence().items, level);
    } else if (value.is_dict()) {
      object(value.dict(), level);
    } else {
      out += scalar(value);
    }
    if (value.depth() == 0) runtime_.budget.bytes(static_cast<int64_t>(out.size() - before));
  }

  std::string out;

 private:
  std::string scalar(const Value& value) const {
    if (value.is_none()) return "null";
    if (value.is_bool()) return value.boolean() ? "true" : "false";
    if (value.is_int()) return std::to_string(value.integer());
    if (value.is_float()) {
      if (std::isnan(value.number())) return "NaN";
      if (std::isinf(value.number())) return value.number() < 0 ? "-Infinity" : "Infinity";
      return float_text(value.number());
    }
    fail("'tojson' cannot write a {}{}", value.type_name(),
         value.is_undefined() ? ": " + value.why_undefined() : std::string());
  }

  void string(std::string_view text) {
    constexpr std::string_view kFrom = "\"\\\n\r\t\f\b", kTo = "\"\\nrtfb";
    out += '"';
    const bool plain = !style_.ensure_ascii;
    for (const char32_t c : code_points(text)) {
      const size_t at = c < 0x80 ? kFrom.find(static_cast<char>(c)) : kFrom.npos;
      if (at != kFrom.npos) {
        out += '\\';
        out += kTo[at];
      } else if (c < 0x20 || (!plain && c > 0x7e && c < 0x10000)) {
        out += format("\\u{:04x}", static_cast<uint32_t>(c));
      } else if (!plain && c >= 0x10000) {
        const auto high = static_cast<uint32_t>(0xd800u + ((c - 0x10000u) >> 10));
        const auto low = static_cast<uint32_t>(0xdc00u + ((c - 0x10000u) & 0x3ffu));
        out += format("\\u{:04x}\\u{:04x}", high, low);
      } else {
        append_code_point(out, c);
      }
    }
    out += '"';
  }

  void line(int level) {
    if (!style_.indent) return;
    runtime_.budget.bytes(static_cast<int64_t>(style_.indent->size()) * level);
    out += '\n';
    for (int i = 0; i < level; ++i) out += *style_.indent;
  }

  void array(const Items& items, int level) {
    out += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      line(level + 1);
      value(items[i], level + 1);
    }
    if (!items.empty()) line(level);
    out += ']';
  }

  std::string key_text(const Value& key) const {
    if (key.is_text()) return key.bytes();
    if (key.is_none() || key.is_number()) return scalar(key);
    fail("'tojson' cannot write a key that is a {}", key.type_name());
  }

  void object(const Dict& dict, int level) {
    std::vector<const std::pair<Value, Value>*> order;
    for (const auto& pair : dict.pairs) order.push_back(&pair);
    if (style_.sort_keys) {
      std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) {
        return runtime_.compare(a->first, b->first, "<") == -1;
      });
    }
    out += '{';
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0) out += style_.item_separator;
      line(level + 1);
      string(key_text(order[i]->first));
      out += style_.key_separator;
      value(order[i]->second, level + 1);
    }
    if (!order.empty()) line(level);
    out += '}';
  }

  Runtime& runtime_;
  const JsonStyle& style_;
};

}  // namespace

std::string json_text(Runtime& runtime, const Value& value, const JsonStyle& style) {
  Writer writer(runtime, style);
  writer.value(value, 0);
  return std::move(writer.out);
}

}  // namespace tephra::jinja
