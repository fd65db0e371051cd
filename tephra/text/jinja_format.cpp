// SPDX-License-Identifier: Apache-2.0
// Python's two ways to format text: "%s" % x and "{}".format(x).
#include <cmath>

#include "tephra/base/text.h"
#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

constexpr int64_t kMaxWidth = 10'000;

struct Spec {
  std::string fill = " ";
  char align = '\0';  // < > ^ =
  char sign = '-';    // + - space
  bool alternate = false, zero = false;
  char grouping = '\0';
  int64_t width = 0, precision = -1;
  char type = '\0';
};

int64_t checked_width(std::string_view digits) {
  const auto value = parse_integer(digits, 10);
  if (!value || *value > kMaxWidth)
    fail("a width or precision beyond {} is not supported", kMaxWidth);
  return *value;
}

std::string aligned(std::string text, const Spec& spec, char standard) {
  const int64_t missing = spec.width - count_code_points(text);
  if (missing <= 0) return text;
  const char align = spec.align != '\0' ? spec.align : standard;
  const auto fill = [&](int64_t count) {
    std::string out;
    for (int64_t i = 0; i < count; ++i) out += spec.fill;
    return out;
  };
  if (align == '<') return text + fill(missing);
  if (align == '^') return fill(missing / 2) + text + fill(missing - missing / 2);
  if (align == '=') {
    size_t at = text.starts_with('-') || text.starts_with('+') || text.starts_with(' ') ? 1 : 0;
    if (spec.alternate && text.size() > at + 1 && text[at] == '0' && std::isalpha(text[at + 1]))
      at += 2;
    return text.substr(0, at) + fill(missing) + text.substr(at);
  }
  return fill(missing) + text;
}

std::string signed_text(bool negative, const std::string& digits, const Spec& spec) {
  if (negative) return "-" + digits;
  return spec.sign == '+' || spec.sign == ' ' ? spec.sign + digits : digits;
}

std::string grouped(const std::string& digits, char separator) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string integer_text(int64_t value, const Spec& spec) {
  const uint64_t size =
      value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string digits;
  switch (spec.type) {
    case 'x':
      digits = (spec.alternate ? "0x" : "") + format("{:x}", size);
      break;
    case 'X':
      digits = (spec.alternate ? "0X" : "") + format("{:X}", size);
      break;
    case 'o':
      digits = (spec.alternate ? "0o" : "") + format("{:o}", size);
      break;
    case 'b':
      digits = (spec.alternate ? "0b" : "") + format("{:b}", size);
      break;
    default:
      digits = format("{}", size);
  }
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping);
  return signed_text(value < 0, digits, spec);
}

// C's conversions, which are Python's as well.
std::string float_digits(double value, const Spec& spec, char type) {
  if (!std::isfinite(value)) {
    const std::string word = std::isnan(value) ? "nan" : "inf";
    return std::isupper(type) ? upper(word) : word;
  }
  char pattern[16], buffer[kMaxWidth + 512];
  std::snprintf(pattern, sizeof pattern, spec.alternate ? "%%#.*%c" : "%%.*%c", type);
  const int precision = static_cast<int>(spec.precision < 0 ? 6 : spec.precision);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  const int length = std::snprintf(buffer, sizeof buffer, pattern, precision, value);
#pragma GCC diagnostic pop
  return {buffer, static_cast<size_t>(std::max(0, length))};
}

std::string real_text(double value, const Spec& spec) {
  const double size = std::abs(value);
  std::string digits;
  if (spec.type == '\0' && spec.precision < 0) {
    digits = float_text(size);
  } else if (spec.type == '\0') {
    digits = float_digits(size, spec, 'g');
    if (digits.find_first_not_of("0123456789") == digits.npos) digits += ".0";
  } else if (spec.type == '%') {
    digits = float_digits(size * 100, spec, 'f') + "%";
  } else {
    digits = float_digits(size, spec, spec.type == 'n' ? 'g' : spec.type);
  }
  if (spec.grouping != '\0') digits = grouped(digits, spec.grouping);
  return signed_text(std::signbit(value) && !std::isnan(value), digits, spec);
}

std::string clipped_points(const std::string& text, int64_t precision) {
  return precision < 0 ? text : text.substr(0, byte_offset(text, precision));
}

// The mini-language behind the colon of "{:...}".
Spec parse_spec(std::string_view text) {
  Spec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first = text.empty() ? 0 : std::max<size_t>(1, utf8_sequence(text));
  if (first > 0 && text.size() > first && is_align(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && is_align(text[0])) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  const auto take = [&](std::string_view choices) {
    if (text.empty() || choices.find(text[0]) == choices.npos) return '\0';
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  const auto take_digits = [&]() {
    const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::string_view digits = text.substr(0, end);
    text.remove_prefix(end);
    return digits.empty() ? int64_t{-1} : checked_width(digits);
  };
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != '\0';
  if (take("0") != '\0' && spec.align == '\0') {
    spec.fill = "0";
    spec.align = '=';
    spec.zero = true;
  }
  spec.width = std::max<int64_t>(0, take_digits());
  spec.grouping = take(",_");
  if (take(".") != '\0' && (spec.precision = take_digits()) < 0)
    fail("a format has '.' without digits");
  spec.type = take("bcdeEfFgGnosxX%");
  if (!text.empty())
    fail("a format specifier ends in '{}', which is not understood", clipped(text, 20));
  return spec;
}

std::string formatted(Runtime& runtime, const Value& value, std::string_view text) {
  if (value.is_undefined() || text.empty()) {
    if (!text.empty()) fail("{}", value.why_undefined());
    return runtime.str(value);
  }
  Spec spec = parse_spec(text);
  const bool floats =
      std::string_view("eEfFgGn%").find(spec.type) != std::string_view::npos && spec.type != '\0';
  if (value.is_text()) {
    if (spec.type != '\0' && spec.type != 's') fail("a str has no format '{}'", spec.type);
    if (spec.align == '=' && !spec.zero) fail("'=' does not align a str");
    if (spec.zero) spec.align = '<';
    return aligned(clipped_points(value.bytes(), spec.precision), spec, '<');
  }
  if (value.is_float() || (value.is_integral() && floats)) {
    if (!floats && spec.type != '\0') fail("a float has no format '{}'", spec.type);
    return aligned(real_text(value.number(), spec), spec, '>');
  }
  if (value.is_integral()) {
    if (spec.type == 's' || spec.precision >= 0) fail("an int has no format '{}'", text);
    if (spec.type == 'c') {
      std::string c;
      append_code_point(c, static_cast<char32_t>(value.integer()));
      return aligned(c, spec, '<');
    }
    return aligned(integer_text(value.integer(), spec), spec, '>');
  }
  fail("a {} takes no format specifier", value.type_name());
}

// Reads "%..." patterns one conversion at a time.
class Percent {
 public:
  Percent(Runtime& runtime, const Value& pattern, const Value& arguments)
      : runtime_(runtime), rest_(pattern.bytes()), arguments_(arguments) {
    const bool tuple = arguments.is_sequence() && arguments.sequence().flavour == Flavour::tuple;
    values_ = tuple ? arguments.sequence().items : Items{arguments};
    single_ = !tuple;
  }

  std::string run() {
    std::string out;
    while (true) {
      const size_t at = rest_.find('%');
      out += rest_.substr(0, at);
      if (at == rest_.npos) break;
      rest_.remove_prefix(at + 1);
      out += conversion();
      runtime_.budget.bytes(static_cast<int64_t>(at) + 16);
      runtime_.budget.output(static_cast<int64_t>(out.size()));
    }
    const bool mapping =
        single_ && (arguments_.is_dict() || arguments_.is_undefined() || arguments_.is_sequence());
    if (used_ < values_.size() && !mapping) fail("'%': not all arguments are used by the pattern");
    return out;
  }

 private:
  const Value& next_value() {
    if (used_ >= values_.size())
      fail("'%': the pattern needs more arguments than {}", values_.size());
    return values_[used_++];
  }

  char take() {
    if (rest_.empty()) fail("'%': the pattern ends inside of a conversion");
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }

  int64_t number(bool& given) {
    given = true;
    if (rest_.starts_with('*')) {
      take();
      const Value& value = next_value();
      if (!value.is_integral()) fail("'%': '*' needs an integer");
      if (std::abs(value.integer()) > kMaxWidth)
        fail("a width beyond {} is not supported", kMaxWidth);
      return value.integer();
    }
    const size_t end = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    given = end > 0;
    const int64_t value = given ? checked_width(rest_.substr(0, end)) : 0;
    rest_.remove_prefix(end);
    return value;
  }

  const Value* keyed() {
    if (!rest_.starts_with('(')) return nullptr;
    int open = 0;
    size_t end = 0;
    do {
      if (end >= rest_.size()) fail("'%': a key in parentheses has no end");
      open += rest_[end] == '(' ? 1 : rest_[end] == ')' ? -1 : 0;
    } while (++end, open > 0);
    const std::string_view key = rest_.substr(1, end - 2);
    rest_.remove_prefix(end);
    if (!arguments_.is_dict()) fail("'%': a pattern with names needs a mapping");
    const Value* found = runtime_.find(arguments_.dict(), Value::text(key));
    if (found == nullptr) fail("'%': there is no value named '{}'", clipped(key, 60));
    return found;
  }

  std::string conversion() {
    const Value* value = keyed();
    Spec spec;
    spec.align = '>';
    while (!rest_.empty() && std::string_view("#0- +").find(rest_[0]) != std::string_view::npos) {
      const char flag = take();
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.zero = true;
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    bool given = false;
    spec.width = number(given);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (rest_.starts_with('.')) {
      take();
      spec.precision = std::max<int64_t>(0, number(given));
    }
    while (!rest_.empty() && std::string_view("hlL").find(rest_[0]) != std::string_view::npos)
      take();
    spec.type = take();
    if (spec.type == '%') return "%";
    return converted(value != nullptr ? *value : next_value(), spec);
  }

  std::string converted(const Value& value, Spec spec) {
    if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
      const std::string text = spec.type == 's' ? runtime_.str(value) : runtime_.repr(value);
      return aligned(clipped_points(text, spec.precision), spec, '>');
    }
    if (spec.type == 'c') return aligned(character(value), spec, '>');
    if (value.is_undefined()) fail("{}", value.why_undefined());
    if (!value.is_number()) fail("'%{}' needs a number, got {}", spec.type, value.type_name());
    if (spec.zero && spec.align == '>') {
      spec.fill = "0";
      spec.align = '=';
    }
    if (std::string_view("diuxXo").find(spec.type) != std::string_view::npos) {
      if (value.is_float() && std::string_view("xXo").find(spec.type) != std::string_view::npos) {
        fail("'%{}' needs an integer, got float", spec.type);
      }
      const double real = value.number();
      if (!std::isfinite(real) || std::abs(real) >= 0x1p63)
        fail("'%{}' needs an integer of 64 bits", spec.type);
      const int64_t whole = value.is_float() ? static_cast<int64_t>(real) : value.integer();
      return aligned(with_precision(integer_text(whole, spec), spec), spec, '>');
    }
    if (std::string_view("eEfFgG").find(spec.type) == std::string_view::npos) {
      fail("'%{}' is no conversion", spec.type);
    }
    return aligned(real_text(value.number(), spec), spec, '>');
  }

  // "%.3d" means at least three digits.
  static std::string with_precision(std::string text, const Spec& spec) {
    const size_t at = text.find_first_of("0123456789");
    const auto digits = static_cast<int64_t>(text.size() - at);
    if (spec.precision > digits) text.insert(at, static_cast<size_t>(spec.precision - digits), '0');
    return text;
  }

  static std::string character(const Value& value) {
    if (value.is_text() && count_code_points(value.bytes()) == 1) return value.bytes();
    if (!value.is_integral() || value.integer() < 0 || value.integer() > 0x10ffff) {
      fail("'%c' needs one character");
    }
    std::string out;
    append_code_point(out, static_cast<char32_t>(value.integer()));
    return out;
  }

  Runtime& runtime_;
  std::string_view rest_;
  const Value& arguments_;
  Items values_;
  size_t used_ = 0;
  bool single_ = false;
};

// Reads "{...}" patterns.
class Braces {
 public:
  Braces(Runtime& runtime, const Arguments& arguments) : runtime_(runtime), arguments_(arguments) {}

  std::string run(std::string_view text, int depth = 0) {
    if (depth > 1) fail("a format nests too deep");
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
        out += c;
        ++i;
      } else if (c == '}') {
        fail("a format has a single '}}'");
      } else if (c == '{') {
        const size_t end = closing(text, i);
        out += field(text.substr(i + 1, end - i - 1), depth);
        i = end;
      } else {
        out += c;
      }
      runtime_.budget.output(static_cast<int64_t>(out.size()));
    }
    return out;
  }

 private:
  static size_t closing(std::string_view text, size_t begin) {
    int open = 0;
    for (size_t i = begin; i < text.size(); ++i) {
      open += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
      if (open == 0) return i;
    }
    fail("a format has a '{{' without its '}}'");
  }

  std::string field(std::string_view text, int depth) {
    runtime_.budget.step(1 + static_cast<int64_t>(text.size()) / 8);
    const size_t bracket = text.find('[');
    size_t colon = text.find(':');
    if (bracket < colon) {  // a key may hold a colon
      const size_t end = text.find(']', bracket);
      colon = end == text.npos ? end : text.find(':', end);
    }
    std::string_view name = text.substr(0, colon);
    char conversion = '\0';
    if (const size_t mark = name.rfind('!'); mark != name.npos) {
      if (name.size() != mark + 2) fail("a format's conversion is one letter behind '!'");
      conversion = name[mark + 1];
      name = name.substr(0, mark);
    }
    Value value = lookup(name);  // before the specifier, whose fields count after this one
    const std::string spec =
        colon == text.npos ? std::string() : run(text.substr(colon + 1), depth + 1);
    if (conversion == 'r' || conversion == 'a') {
      value = runtime_.budget.text(runtime_.repr(value));
    } else if (conversion == 's') {
      value = runtime_.budget.text(runtime_.str(value));
    } else if (conversion != '\0') {
      fail("a format has the conversion '!{}', which is unknown", conversion);
    }
    return formatted(runtime_, value, spec);
  }

  Value lookup(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty()) {
      if (name[0] == '.') {
        const size_t stop = std::min(name.find_first_of(".[", 1), name.size());
        value = runtime_.attribute(value, name.substr(1, stop - 1));
        name.remove_prefix(stop);
      } else {
        const size_t stop = name.find(']');
        if (name[0] != '[' || stop == name.npos) fail("a format has a '[' without its ']'");
        const std::string_view key = name.substr(1, stop - 1);
        const bool digits = !key.empty() && key.find_first_not_of("0123456789") == key.npos;
        value = runtime_.item(value, digits ? Value(*parse_integer(key, 10)) : Value::text(key));
        name.remove_prefix(stop + 1);
      }
    }
    return value;
  }

  Value argument(std::string_view name) {
    const bool digits = name.find_first_not_of("0123456789") == name.npos;
    if (digits) {
      const auto at = name.empty() ? next_++ : *parse_integer(name, 10);
      if (at >= static_cast<int64_t>(arguments_.positional.size())) {
        fail("a format needs more arguments than {}", arguments_.positional.size());
      }
      return arguments_.positional[static_cast<size_t>(at)];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    fail("a format names '{}', which is not given", clipped(name, 60));
  }

  Runtime& runtime_;
  const Arguments& arguments_;
  int64_t next_ = 0;
};

}  // namespace

Value Runtime::percent(const Value& pattern, const Value& arguments) {
  return budget.text(Percent(*this, pattern, arguments).run(), pattern.text().markup);
}

Value Runtime::braces(const Value& pattern, const Arguments& arguments) {
  budget.bytes(static_cast<int64_t>(pattern.bytes().size()));
  return budget.text(Braces(*this, arguments).run(pattern.bytes()), pattern.text().markup);
}

}  // namespace tephra::jinja
