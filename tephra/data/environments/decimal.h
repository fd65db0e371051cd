// SPDX-License-Identifier: Apache-2.0
// Natural numbers as decimal strings without leading zeros, so that levels have no end.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace tephra::decimal {

std::string trimmed(std::string_view digits);  // without leading zeros; "0" stays
std::strong_ordering compare(std::string_view a, std::string_view b);
std::string add(std::string_view a, std::string_view b);
std::string subtract(std::string_view a, std::string_view b);  // a >= b
std::string multiply(std::string_view a, int64_t digit);       // 0 to 9

struct Division {
  std::string quotient;
  int64_t remainder;
};
Division divide(std::string_view a, int64_t divisor);

inline int64_t digit(char c) { return c - '0'; }

}  // namespace tephra::decimal
