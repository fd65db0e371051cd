// SPDX-License-Identifier: Apache-2.0
// (a * b + c) mod m: each number is reduced digit by digit, then the small ones are combined.
#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

// Horner's rule: the remainder after each digit.
int64_t reduce(Lines& lines, std::string_view number, int64_t modulus) {
  std::string text = format("{} mod {}: 0", number, modulus);
  int64_t rest = 0;
  for (const char c : number) {
    const int64_t here = rest * 10 + decimal::digit(c);
    rest = here % modulus;
    text += here == rest ? format(", {}", rest) : format(", {}->{}", here, rest);
  }
  lines.add("{}", text);
  return rest;
}

}  // namespace

Task make_modular(Draw& draw, int64_t level) {
  const std::string a = draw.number(1 + level / 2), b = draw.number(1 + level / 3),
                    c = draw.number(1 + level / 2);
  const int64_t m = draw.between(2, 10 + std::min<int64_t>(level, 1000000));
  Lines lines;
  const int64_t ra = reduce(lines, a, m), rb = reduce(lines, b, m), rc = reduce(lines, c, m);
  const int64_t product = ra * rb % m;
  lines.add("{}*{}={}, mod {} is {}", ra, rb, ra * rb, m, product);
  lines.add("{}+{}={}, mod {} is {}", product, rc, product + rc, m, (product + rc) % m);
  return {format("What is ({} * {} + {}) mod {}?", a, b, c, m), lines.text(),
          format("{}", (product + rc) % m), ""};
}

}  // namespace tephra
