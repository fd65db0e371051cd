// SPDX-License-Identifier: Apache-2.0
// Subtraction from the last digit to the first, with borrows; the smaller from the larger, then
// the sign.
#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_subtraction(Draw& draw, int64_t level) {
  const std::string a = draw.number(draw.between(1, level + 1)), b = draw.number(level + 1);
  const bool swap_sides = draw.flip();
  const std::string &left = swap_sides ? b : a, &right = swap_sides ? a : b;
  const bool negative = decimal::compare(left, right) < 0;
  const std::string &large = negative ? right : left, &small = negative ? left : right;
  Lines lines;
  if (negative) lines.add("{} is smaller: take it from {}, the result is negative", left, right);
  std::string written;
  int64_t borrow = 0;
  for (size_t i = 0; i < large.size(); ++i) {
    const int64_t top = decimal::digit(large[large.size() - 1 - i]);
    const int64_t bottom = i < small.size() ? decimal::digit(small[small.size() - 1 - i]) : 0;
    const int64_t rest = top - bottom - borrow;
    const std::string step = format("{}-{}{}={}", top, bottom, borrow > 0 ? "-1" : "", rest);
    borrow = rest < 0 ? 1 : 0;
    written += static_cast<char>('0' + rest + 10 * borrow);
    lines.add("{}, write {} borrow {}", step, rest + 10 * borrow, borrow);
  }
  lines.add("backwards {}", written);
  const std::string difference = decimal::subtract(large, small);
  return {format("What is {} - {}?", left, right), lines.text(), (negative ? "-" : "") + difference,
          ""};
}

}  // namespace tephra
