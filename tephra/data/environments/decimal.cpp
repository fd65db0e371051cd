// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/environments/decimal.h"

#include <algorithm>

#include "tephra/base/error.h"

namespace tephra::decimal {
namespace {

// Digit `place` from the right; 0 beyond the left end.
int64_t at(std::string_view number, size_t place) {
  return place < number.size() ? digit(number[number.size() - 1 - place]) : 0;
}

std::string from_reversed(std::string digits) {
  std::reverse(digits.begin(), digits.end());
  return trimmed(digits);
}

char to_char(int64_t value) { return static_cast<char>('0' + value); }

}  // namespace

std::string trimmed(std::string_view digits) {
  const size_t first = digits.find_first_not_of('0');
  return first == std::string_view::npos ? "0" : std::string(digits.substr(first));
}

std::strong_ordering compare(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a <=> b;
}

std::string add(std::string_view a, std::string_view b) {
  std::string sum;
  int64_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()) || carry > 0; ++i) {
    const int64_t total = at(a, i) + at(b, i) + carry;
    sum += to_char(total % 10);
    carry = total / 10;
  }
  return from_reversed(sum);
}

std::string subtract(std::string_view a, std::string_view b) {
  TEPHRA_ASSERT(compare(a, b) >= 0, "the difference is a natural number");
  std::string difference;
  int64_t borrow = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t total = at(a, i) - at(b, i) - borrow;
    borrow = total < 0 ? 1 : 0;
    difference += to_char(total + 10 * borrow);
  }
  return from_reversed(difference);
}

std::string multiply(std::string_view a, int64_t by) {
  std::string product;
  int64_t carry = 0;
  for (size_t i = 0; i < a.size() || carry > 0; ++i) {
    const int64_t total = at(a, i) * by + carry;
    product += to_char(total % 10);
    carry = total / 10;
  }
  return from_reversed(product);
}

Division divide(std::string_view a, int64_t divisor) {
  std::string quotient;
  int64_t remainder = 0;
  for (const char c : a) {
    remainder = remainder * 10 + digit(c);
    quotient += to_char(remainder / divisor);
    remainder %= divisor;
  }
  return {trimmed(quotient), remainder};
}

}  // namespace tephra::decimal
