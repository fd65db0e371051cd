// SPDX-License-Identifier: Apache-2.0
// Comparison: lengths first, then the first digit that differs.
#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_comparison(Draw& draw, int64_t level) {
  const std::string a = draw.number(level + 1);
  // Mostly numbers that agree for a while, the hard case; sometimes of another length or equal.
  const int64_t shared = draw.between(1, level + 1);
  const int64_t length = draw.between(0, 3) > 0 ? level + 1 : draw.between(shared, level + 2);
  std::string b = a.substr(0, static_cast<size_t>(shared));
  b += draw.word(length - shared, "0123456789");
  Lines lines;
  const auto order = decimal::compare(a, b);
  lines.add("{} and {} digits", a.size(), b.size());
  if (a.size() == b.size()) {
    for (size_t i = 0; i < a.size(); ++i) {
      lines.add("{} {} {}", a[i], a[i] == b[i] ? '=' : a[i] < b[i] ? '<' : '>', b[i]);
      if (a[i] != b[i]) break;
    }
  }
  const char* sign = order < 0 ? "<" : order > 0 ? ">" : "=";
  return {format("Compare {} and {}. Answer with <, > or =.", a, b), lines.text(), sign, ""};
}

}  // namespace tephra
