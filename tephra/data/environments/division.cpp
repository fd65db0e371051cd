// SPDX-License-Identifier: Apache-2.0
// Long division: bring down one digit at a time.
#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_division(Draw& draw, int64_t level) {
  const std::string a = draw.number(level + 2);
  const int64_t divisor = draw.between(2, level < 5 ? 9 : 99);
  Lines lines;
  int64_t remainder = 0;
  for (const char c : a) {
    const int64_t here = remainder * 10 + decimal::digit(c);
    remainder = here % divisor;
    lines.add("{}: {}*{}={}, left {}", here, here / divisor, divisor, here - remainder, remainder);
  }
  const auto [quotient, rest] = decimal::divide(a, divisor);
  return {format("Divide {} by {}. Give quotient and remainder.", a, divisor), lines.text(),
          format("{} remainder {}", quotient, rest), ""};
}

}  // namespace tephra
