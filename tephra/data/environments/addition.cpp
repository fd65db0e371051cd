// SPDX-License-Identifier: Apache-2.0
// Addition from the last digit to the first, with carries.
#include <algorithm>

#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_addition(Draw& draw, int64_t level) {
  std::string a = draw.number(level + 1), b = draw.number(draw.between(1, level + 1));
  if (draw.flip()) std::swap(a, b);
  Lines lines;
  std::string written;
  int64_t carry = 0;
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    std::vector<int64_t> terms;
    if (i < a.size()) terms.push_back(decimal::digit(a[a.size() - 1 - i]));
    if (i < b.size()) terms.push_back(decimal::digit(b[b.size() - 1 - i]));
    if (carry > 0) terms.push_back(carry);
    int64_t sum = 0;
    for (const int64_t term : terms) sum += term;
    carry = sum / 10;
    written += static_cast<char>('0' + sum % 10);
    lines.add("{}={}, write {} carry {}", joined(terms, "+"), sum, sum % 10, carry);
  }
  if (carry > 0) {
    written += '1';
    lines.add("write 1");
  }
  lines.add("backwards {}", written);
  const auto& [low, high] = std::minmax(a, b);
  return {format("What is {} + {}?", a, b), lines.text(), decimal::add(a, b),
          format("{} {}", low, high)};
}

}  // namespace tephra
