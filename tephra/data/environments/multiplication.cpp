// SPDX-License-Identifier: Apache-2.0
// Long multiplication: one digit of the second factor at a time, with carries, then the sum.
#include <algorithm>

#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

// "345*8: 5*8=40 write 0 carry 4, 4*8+4=36 write 6 carry 3, ..."
std::string digit_times(std::string_view a, int64_t by) {
  std::string text = format("{}*{}:", a, by);
  int64_t carry = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t d = decimal::digit(a[a.size() - 1 - i]);
    const int64_t total = d * by + carry;
    text += format("{} {}*{}{}={} write {} carry {}", i > 0 ? "," : "", d, by,
                   carry > 0 ? format("+{}", carry) : "", total, total % 10, total / 10);
    carry = total / 10;
  }
  return text;
}

}  // namespace

Task make_multiplication(Draw& draw, int64_t level) {
  const std::string a = draw.number(level + 1), b = draw.number(1 + (level + 1) / 3);
  Lines lines;
  std::string sum = "0";
  for (size_t i = 0; i < b.size(); ++i) {
    const int64_t by = decimal::digit(b[b.size() - 1 - i]);
    lines.add("{}", digit_times(a, by));
    const std::string part = decimal::trimmed(decimal::multiply(a, by) + std::string(i, '0'));
    const std::string total = decimal::add(sum, part);
    lines.add("{}+{}={}", sum, part, total);
    sum = total;
  }
  const auto& [low, high] = std::minmax(a, b);
  return {format("What is {} * {}?", a, b), lines.text(), sum, format("{} {}", low, high)};
}

}  // namespace tephra
