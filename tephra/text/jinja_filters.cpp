// SPDX-License-Identifier: Apache-2.0
// The table of filters, and those on text and numbers; those on sequences are in
// jinja_sequence_filters.cpp.
#include <algorithm>
#include <cmath>

#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_sequence_filters.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

Value text_of(Call& call, std::string text) {
  const bool markup = call.self.is_text() && call.self.text().markup;
  return call.runtime.budget.text(std::move(text), markup);
}

std::string self_text(Call& call) { return call.runtime.str(call.self); }

// Filters that take a str only; Python would fail on a missing method.
const std::string& needed_text(Call& call) {
  if (call.self.is_undefined()) fail("'{}': {}", call.name, call.self.why_undefined());
  if (!call.self.is_text()) fail("'{}' needs a str, got {}", call.name, call.self.type_name());
  return call.self.bytes();
}

Value upper_filter(Call& call) { return text_of(call, upper(self_text(call))); }
Value lower_filter(Call& call) { return text_of(call, lower(self_text(call))); }
Value capitalize_filter(Call& call) { return text_of(call, capitalized(self_text(call))); }
Value string_filter(Call& call) { return text_of(call, self_text(call)); }

// Words begin after blanks, hyphens and opening brackets.
Value title_filter(Call& call) {
  const std::u32string points = code_points(self_text(call));
  const auto parts_words = [](char32_t c) {
    return is_white_space(c) || std::u32string_view(U"-({[<").find(c) != std::u32string_view::npos;
  };
  std::string out;
  for (size_t begin = 0; begin < points.size();) {
    const bool gap = parts_words(points[begin]);
    size_t end = begin;
    while (end < points.size() && parts_words(points[end]) == gap) ++end;
    const std::u32string_view word = std::u32string_view(points).substr(begin, end - begin);
    out += upper(utf8(word.substr(0, 1))) + lower(utf8(word.substr(1)));
    begin = end;
  }
  return call.runtime.budget.text(std::move(out));
}

Value trim_filter(Call& call) {
  const std::string text = self_text(call);
  const std::string characters = call.has_not_none(0) ? call.text(0) : std::string();
  return text_of(
      call, std::string(stripped(text, call.has_not_none(0) ? &characters : nullptr, true, true)));
}

Value replace_filter(Call& call) {
  const std::string text = self_text(call), from = call.runtime.str(call.at(0)),
                    to = call.runtime.str(call.at(1));
  const int64_t count = call.has_not_none(2) ? call.integer(2) : -1;
  call.runtime.budget.bytes(count_part(text, from) * static_cast<int64_t>(to.size()));
  return call.runtime.budget.text(replaced(text, from, to, count));
}

Value escape_filter(Call& call) {
  if (call.self.is_text() && call.self.text().markup) return call.self;
  return call.runtime.budget.text(escaped_html(self_text(call)), true);
}

Value force_escape_filter(Call& call) {
  return call.runtime.budget.text(escaped_html(self_text(call)), true);
}

Value safe_filter(Call& call) { return call.runtime.budget.text(self_text(call), true); }

Value indent_filter(Call& call) {
  const bool markup = call.self.is_text() && call.self.text().markup;
  const std::string& text = needed_text(call);
  std::string unit;
  if (call.has(0) && call.at(0).is_text()) {
    unit = call.text(0);
  } else {
    const int64_t width = std::max<int64_t>(0, call.integer_or(0, 4));
    call.runtime.budget.bytes(width);
    unit = std::string(static_cast<size_t>(width), ' ');
  }
  const std::string whole = text + "\n";
  const auto lines = split_lines(whole, false);
  call.runtime.budget.bytes(static_cast<int64_t>(lines.size() * unit.size() + whole.size()));
  const bool blank = call.truth_or(2, false);
  std::string out = call.truth_or(1, false) ? unit : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (blank || !lines[i].empty())) out += unit;
    out += lines[i];
  }
  return call.runtime.budget.text(std::move(out), markup);
}

Value truncate_filter(Call& call) {
  const int64_t length = call.integer_or(0, 255);
  const std::u32string end = code_points(call.text_or(2, "..."));
  const int64_t leeway = call.has_not_none(3) ? call.integer(3) : 5;
  const auto end_length = static_cast<int64_t>(end.size());
  if (length < end_length)
    fail("'truncate' needs a length of at least {}, got {}", end_length, length);
  if (leeway < 0) fail("'truncate' needs a leeway of at least 0, got {}", leeway);
  if (call.runtime.length(call.self) - leeway <= length) return call.self;
  const std::u32string points = code_points(needed_text(call));
  std::u32string kept = points.substr(0, static_cast<size_t>(length - end_length));
  if (!call.truth_or(1, false)) kept = kept.substr(0, kept.rfind(U' '));  // npos keeps all
  return text_of(call, utf8(kept + end));
}

Value center_filter(Call& call) {
  Arguments arguments;
  arguments.positional.emplace_back(call.integer_or(0, 80));
  const Value text = text_of(call, self_text(call));
  return run_builtin(call.runtime, *find_builtin(text_methods(), "center"), text,
                     std::move(arguments));
}

Value wordcount_filter(Call& call) {
  int64_t count = 0;
  bool inside = false;
  for (const char32_t c : code_points(self_text(call))) {
    const bool word = is_word_character(c);
    if (word && !inside) ++count;
    inside = word;
  }
  return count;
}

Value format_filter(Call& call) {
  if (!call.more.empty() && !call.more_named.empty()) {
    fail("'format' takes either positional or named arguments");
  }
  const Value pattern = text_of(call, self_text(call));
  if (call.more_named.empty()) {
    return call.runtime.percent(pattern, call.runtime.budget.tuple(std::move(call.more)));
  }
  Pairs pairs;
  for (auto& [name, value] : call.more_named) {
    pairs.emplace_back(Value::text(name), std::move(value));
  }
  return call.runtime.percent(pattern, call.runtime.budget.dict(std::move(pairs)));
}

Value truncated(double value) {
  if (!std::isfinite(value)) fail("{} is no integer", float_text(value));
  if (std::abs(value) >= 0x1p63) fail("the integer {} does not fit 64 bits", float_text(value));
  return static_cast<int64_t>(value);
}

Value int_filter(Call& call) {
  const Value fallback = call.has(0) ? call.at(0) : Value(int64_t{0});
  if (call.self.is_undefined()) fail("'int': {}", call.self.why_undefined());
  if (call.self.is_integral()) return call.self.integer();
  if (call.self.is_float()) {
    if (std::isnan(call.self.number())) return fallback;
    return truncated(call.self.number());
  }
  if (!call.self.is_text()) return fallback;
  if (const auto whole = parse_integer(call.self.bytes(), call.integer_or(1, 10))) return *whole;
  const auto real = parse_float(call.self.bytes());
  if (!real || std::isnan(*real)) return fallback;
  return truncated(*real);
}

Value float_filter(Call& call) {
  const Value fallback = call.has(0) ? call.at(0) : Value(0.0);
  if (call.self.is_undefined()) fail("'float': {}", call.self.why_undefined());
  if (call.self.is_number()) return call.self.number();
  if (!call.self.is_text()) return fallback;
  const auto value = parse_float(call.self.bytes());
  return value ? Value(*value) : fallback;
}

Value abs_filter(Call& call) {
  if (call.self.is_float()) return std::abs(call.self.number());
  if (call.self.is_integral()) {
    return call.self.integer() < 0 ? call.runtime.negated(call.self) : Value(call.self.integer());
  }
  if (call.self.is_undefined()) fail("'abs': {}", call.self.why_undefined());
  fail("'abs' needs a number, got {}", call.self.type_name());
}

// round(): ties to even, decided on the exact decimal digits of the double.
double rounded(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < -300) return std::copysign(0.0, value);
  if (precision >= 0) {
    return parse_float(format("{:.{}f}", value, static_cast<int>(precision))).value();
  }
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(value / unit) * unit;
}

Value round_filter(Call& call) {
  const int64_t precision = call.integer_or(0, 0);
  const std::string method = call.text_or(1, "common");
  if (call.self.is_undefined()) fail("'round': {}", call.self.why_undefined());
  if (!call.self.is_number()) fail("'round' needs a number, got {}", call.self.type_name());
  if (method == "common") {
    if (call.self.is_float()) return rounded(call.self.number(), precision);
    if (precision >= 0) return call.self.integer();
    if (precision < -18) return int64_t{0};
    int64_t unit = 1;
    for (int64_t i = 0; i < -precision; ++i) unit *= 10;
    const int64_t n = call.self.integer(), rest = ((n % unit) + unit) % unit, down = n - rest;
    const bool up = rest > unit - rest || (rest == unit - rest && (down / unit) % 2 != 0);
    return up ? call.runtime.binary("+", down, unit) : Value(down);
  }
  if (method != "ceil" && method != "floor") {
    fail("'round' knows the methods common, ceil and floor, got '{}'", method);
  }
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = call.self.number() * unit;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

Value default_filter(Call& call) {
  const bool replace = call.self.is_undefined() || (call.truth_or(1, false) && !truthy(call.self));
  if (!replace) return call.self;
  return call.has(0) ? call.at(0) : Value::text("");
}

Value filesizeformat_filter(Call& call) {
  if (!call.self.is_number() && !call.self.is_text()) {
    fail("'filesizeformat' needs a number, got {}", call.self.type_name());
  }
  const auto parsed = call.self.is_text() ? parse_float(call.self.bytes())
                                          : std::optional<double>(call.self.number());
  if (!parsed) fail("'filesizeformat' needs a number, got {}", python_quoted(call.self.bytes()));
  const bool binary = call.truth_or(0, false);
  const double base = binary ? 1024 : 1000;
  if (*parsed == 1) return Value::text("1 Byte");
  if (*parsed < base) return Value::text(format("{} Bytes", truncated(*parsed).integer()));
  double unit = base;
  std::string out;
  for (const char* letter : {"k", "M", "G", "T", "P", "E", "Z", "Y"}) {
    unit *= base;
    const std::string name = binary ? upper(letter) + "iB" : std::string(letter) + "B";
    out = format("{:.1f} {}", base * *parsed / unit, name);
    if (*parsed < unit) break;
  }
  return Value::text(out);
}

Value urlencode_filter(Call& call) {
  const auto quote = [&](const Value& value, bool query) {
    std::string out;
    for (const char c : call.runtime.str(value)) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') ||
                         std::string_view("_.-~").find(c) != std::string_view::npos;
      if (plain || (c == '/' && !query)) {
        out += c;
      } else if (c == ' ' && query) {
        out += '+';
      } else {
        out += format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
      }
    }
    return out;
  };
  if (call.self.is_text() || !call.runtime.is_iterable(call.self)) {
    return call.runtime.budget.text(quote(call.self, false));
  }
  std::string out;
  const auto put = [&](const Value& name, const Value& value) {
    if (!out.empty()) out += '&';
    out += quote(name, true) + "=" + quote(value, true);
  };
  if (call.self.is_dict()) {
    for (const auto& [key, value] : call.self.dict().pairs) put(key, value);
  } else {
    for (const Value& pair : call.runtime.items(call.self)) {
      const Items both = call.runtime.items(pair);
      if (both.size() != 2) fail("'urlencode' needs pairs");
      put(both[0], both[1]);
    }
  }
  return call.runtime.budget.text(std::move(out));
}

Value tojson_filter(Call& call) {
  JsonStyle style;
  style.ensure_ascii = call.truth_or(0, false);
  if (call.has_not_none(1)) {
    style.item_separator = ",";
    if (call.at(1).is_text()) {
      style.indent = call.text(1);
    } else {
      const int64_t width = std::max<int64_t>(0, call.integer(1));
      call.runtime.budget.bytes(width);
      style.indent = std::string(static_cast<size_t>(width), ' ');
    }
  }
  if (call.has_not_none(2)) {
    const Items both = call.runtime.items(call.at(2));
    if (both.size() != 2 || !both[0].is_text() || !both[1].is_text()) {
      fail("'tojson' needs two strings as separators");
    }
    style.item_separator = both[0].bytes();
    style.key_separator = both[1].bytes();
  }
  style.sort_keys = call.truth_or(3, false);
  return call.runtime.budget.text(json_text(call.runtime, call.self, style));
}

Value refused(Call& call) { fail("the filter '{}' is not supported in chat templates", call.name); }

constexpr Builtin kFilters[] = {
    {"abs", "", abs_filter},
    {"attr", "name!", attr_filter},
    {"batch", "linecount! fill_with", batch_filter},
    {"capitalize", "", capitalize_filter},
    {"center", "width", center_filter},
    {"count", "", length_filter},
    {"d", "default_value boolean", default_filter},
    {"default", "default_value boolean", default_filter},
    {"dictsort", "case_sensitive by reverse", dictsort_filter},
    {"e", "", escape_filter},
    {"escape", "", escape_filter},
    {"filesizeformat", "binary", filesizeformat_filter},
    {"first", "", first_filter},
    {"float", "default", float_filter},
    {"forceescape", "", force_escape_filter},
    {"format", "* **", format_filter},
    {"groupby", "attribute! default case_sensitive", groupby_filter},
    {"indent", "width first blank", indent_filter},
    {"int", "default base", int_filter},
    {"items", "", items_filter},
    {"join", "d attribute", join_filter},
    {"last", "", last_filter},
    {"length", "", length_filter},
    {"list", "", list_filter},
    {"lower", "", lower_filter},
    {"map", "* **", map_filter},
    {"max", "case_sensitive attribute", max_filter},
    {"min", "case_sensitive attribute", min_filter},
    {"pprint", "", refused},
    {"random", "", refused},
    {"reject", "* **", reject_filter},
    {"rejectattr", "* **", rejectattr_filter},
    {"replace", "old! new! count", replace_filter},
    {"reverse", "", reverse_filter},
    {"round", "precision method", round_filter},
    {"safe", "", safe_filter},
    {"select", "* **", select_filter},
    {"selectattr", "* **", selectattr_filter},
    {"slice", "slices! fill_with", slice_filter},
    {"sort", "reverse case_sensitive attribute", sort_filter},
    {"string", "", string_filter},
    {"striptags", "", refused},
    {"sum", "attribute start", sum_filter},
    {"title", "", title_filter},
    {"tojson", "ensure_ascii indent separators sort_keys", tojson_filter},
    {"trim", "chars", trim_filter},
    {"truncate", "length killwords end leeway", truncate_filter},
    {"unique", "case_sensitive attribute", unique_filter},
    {"upper", "", upper_filter},
    {"urlencode", "", urlencode_filter},
    {"urlize", "* **", refused},
    {"wordcount", "", wordcount_filter},
    {"wordwrap", "* **", refused},
    {"xmlattr", "* **", refused},
};

}  // namespace

std::span<const Builtin> filters() { return kFilters; }

}  // namespace tephra::jinja
