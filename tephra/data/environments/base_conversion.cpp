// SPDX-License-Identifier: Apache-2.0
// A decimal number in another base: divide until nothing is left, read the remainders backwards.
#include <algorithm>

#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_base_conversion(Draw& draw, int64_t level) {
  std::string number = draw.number(2 + level / 2);
  const int64_t base = draw.between(2, 16);
  const std::string prompt = format("Write {} in base {}.", number, base);
  Lines lines;
  std::string written;
  do {
    const auto [quotient, remainder] = decimal::divide(number, base);
    const char digit = "0123456789abcdef"[remainder];
    lines.add("{}/{}={} left {}{}", number, base, quotient, remainder,
              remainder > 9 ? format(" is {}", digit) : "");
    written += digit;
    number = quotient;
  } while (number != "0");
  lines.add("backwards {}", written);
  std::reverse(written.begin(), written.end());
  return {prompt, lines.text(), written, ""};
}

}  // namespace tephra
