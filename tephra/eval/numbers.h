// SPDX-License-Identifier: Apache-2.0
// Numbers as people and models write them: 1,234,567  -3.50  .5  1e-3  3/4  \frac{3}{4}  $12  50%.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tephra {

struct Number {
  std::string text;     // as it was written
  std::string decimal;  // "-3.5": without needless zeros; empty for exponents and fractions
  double value = 0;

  bool integer() const { return !decimal.empty() && decimal.find('.') == std::string::npos; }
};

// All numbers of a text, in order. Digits that follow a letter are part of a name ("x2") and do not
// count; a minus between two numbers is a subtraction, not a sign. A per cent sign is ignored.
std::vector<Number> numbers_in(std::string_view text);

// Integers of any length must agree in every digit; other numbers within tolerance * |want|.
bool same_number(const Number& got, const Number& want, double tolerance);

}  // namespace tephra
