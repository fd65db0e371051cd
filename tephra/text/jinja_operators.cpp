// SPDX-License-Identifier: Apache-2.0
// + - * / // % ** with Python's rules: division rounds down, the remainder has the divisor's sign.
// Integers have 64 bits; a result beyond is an error, never a wrapped number.
#include <cmath>

#include "tephra/text/jinja_runtime.h"
#include "tephra/text/jinja_strings.h"

namespace tephra::jinja {
namespace {

[[noreturn]] void overflow(std::string_view op) {
  fail("the result of '{}' does not fit 64 bits", op);
}

void require_divisor(bool ok) {
  if (!ok) fail("division by zero");
}

int64_t floor_divide(int64_t a, int64_t b) {
  require_divisor(b != 0);
  if (b == -1) {
    int64_t negated = 0;
    if (__builtin_sub_overflow(int64_t{0}, a, &negated)) overflow("//");
    return negated;
  }
  const int64_t quotient = a / b;
  return quotient - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t modulo(int64_t a, int64_t b) {
  require_divisor(b != 0);
  if (b == -1) return 0;
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double modulo(double a, double b) {
  require_divisor(b != 0);
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_divide(double a, double b) {
  require_divisor(b != 0);
  const double quotient = (a - modulo(a, b)) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) overflow("**");
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) overflow("**");
  }
  return result;
}

Value integers(std::string_view op, int64_t a, int64_t b) {
  int64_t result = 0;
  bool over = false;
  if (op == "+") {
    over = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    over = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    over = __builtin_mul_overflow(a, b, &result);
  } else if (op == "//") {
    result = floor_divide(a, b);
  } else if (op == "%") {
    result = modulo(a, b);
  } else if (op == "/") {
    require_divisor(b != 0);
    return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
  } else if (b < 0) {
    require_divisor(a != 0);
    return std::pow(static_cast<double>(a), static_cast<double>(b));
  } else {
    result = integer_power(a, b);
  }
  if (over) overflow(op);
  return result;
}

Value floats(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "//") return floor_divide(a, b);
  if (op == "%") return modulo(a, b);
  if (op == "/") {
    require_divisor(b != 0);
    return a / b;
  }
  require_divisor(a != 0 || b >= 0);
  if (a < 0 && std::isfinite(b) && b != std::floor(b)) {
    fail("a negative number to a broken power is a complex number, which is not supported");
  }
  const double result = std::pow(a, b);
  if (std::isinf(result) && std::isfinite(a) && std::isfinite(b))
    fail("'**' is too large a number");
  return result;
}

Value repeated(Budget& budget, const Value& value, int64_t count) {
  count = std::max<int64_t>(count, 0);
  if (value.is_text()) {
    const auto size = static_cast<int64_t>(value.bytes().size());
    int64_t total = 0;
    if (__builtin_mul_overflow(size, count, &total))
      total = std::numeric_limits<int64_t>::max() / 2;
    budget.bytes(total);
    std::string out;
    out.reserve(static_cast<size_t>(total));
    for (int64_t i = 0; i < count && size > 0; ++i) out += value.bytes();
    return budget.text(std::move(out), value.text().markup);
  }
  const Items& items = value.sequence().items;
  int64_t total = 0;
  if (__builtin_mul_overflow(static_cast<int64_t>(items.size() * sizeof(Value)), count, &total)) {
    total = std::numeric_limits<int64_t>::max() / 2;
  }
  budget.bytes(total);
  Items out;
  for (int64_t i = 0; i < count && !items.empty(); ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return budget.list(std::move(out), value.sequence().flavour);
}

bool is_repeatable(const Value& value) {
  return value.is_text() || (value.is_sequence() && value.sequence().flavour <= Flavour::tuple);
}

Value joined_text(Budget& budget, const Text& a, const Text& b) {
  const bool markup = a.markup || b.markup;
  const auto part = [&](const Text& text) {
    return markup && !text.markup ? escaped_html(text.bytes) : text.bytes;
  };
  return budget.text(part(a) + part(b), markup);
}

}  // namespace

Value Runtime::binary(std::string_view op, const Value& a, const Value& b) {
  if (op == "%" && a.is_text()) return percent(a, b);
  if (a.is_undefined()) fail("{}", a.why_undefined());
  if (b.is_undefined()) fail("{}", b.why_undefined());
  if (a.is_integral() && b.is_integral()) return integers(op, a.integer(), b.integer());
  if (a.is_number() && b.is_number()) return floats(op, a.number(), b.number());
  if (op == "+" && a.is_text() && b.is_text()) return joined_text(budget, a.text(), b.text());
  if (op == "+" && is_repeatable(a) && is_repeatable(b) && a.type_name() == b.type_name()) {
    Items out = a.sequence().items;
    out.insert(out.end(), b.sequence().items.begin(), b.sequence().items.end());
    return budget.list(std::move(out), a.sequence().flavour);
  }
  if (op == "*" && is_repeatable(a) && b.is_integral()) return repeated(budget, a, b.integer());
  if (op == "*" && is_repeatable(b) && a.is_integral()) return repeated(budget, b, a.integer());
  fail("'{}' is not defined between {} and {}{}", op, a.type_name(), b.type_name(),
       op == "+" && (a.is_text() || b.is_text()) ? "; '~' joins anything as text" : "");
}

Value Runtime::negated(const Value& value) {
  if (value.is_undefined()) fail("{}", value.why_undefined());
  if (value.is_integral()) return integers("-", 0, value.integer());
  if (value.is_float()) return -value.number();
  fail("'-' is not defined for a {}", value.type_name());
}

}  // namespace tephra::jinja
