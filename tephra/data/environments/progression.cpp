// SPDX-License-Identifier: Apache-2.0
// The next term of a polynomial sequence, by its table of differences.
#include <algorithm>

#include "tephra/data/environments/decimal.h"
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

// A whole number as a decimal string, perhaps with a minus, because degrees rise without end and
// terms with them.
using Whole = std::string;

Whole negated(const Whole& a) {
  if (a == "0") return a;
  return a[0] == '-' ? a.substr(1) : "-" + a;
}

Whole sum(const Whole& a, const Whole& b) {
  const bool minus = a[0] == '-';
  if (minus && b[0] == '-') return negated(decimal::add(a.substr(1), b.substr(1)));
  if (minus) return sum(b, a);
  if (b[0] != '-') return decimal::add(a, b);
  const std::string_view size = std::string_view(b).substr(1);
  return decimal::compare(a, size) >= 0 ? decimal::subtract(a, size)
                                        : negated(decimal::subtract(size, a));
}

std::vector<Whole> differences(const std::vector<Whole>& terms) {
  std::vector<Whole> result;
  for (size_t i = 1; i < terms.size(); ++i) result.push_back(sum(terms[i], negated(terms[i - 1])));
  return result;
}

}  // namespace

Task make_progression(Draw& draw, int64_t level) {
  const int64_t degree = 1 + (level - 1) / 4;
  const int64_t size = 20 + 9 * std::min<int64_t>(level, 1000000000);
  // Row k of the table starts with edge[k]; the last row is constant.
  std::vector<Whole> edge;
  for (int64_t k = 0; k <= degree; ++k) {
    edge.push_back(format("{}", draw.between(k == degree ? 1 : -size, size)));
  }
  std::vector<Whole> terms;
  for (int64_t i = 0; i < degree + 3; ++i) {
    terms.push_back(edge[0]);
    for (size_t k = 0; k + 1 < edge.size(); ++k) edge[k] = sum(edge[k], edge[k + 1]);
  }
  Lines lines;
  std::vector<std::vector<Whole>> rows{terms};
  for (int64_t k = 0; k < degree; ++k) {
    rows.push_back(differences(rows.back()));
    lines.add("differences {}", joined(rows.back()));
  }
  Whole next = rows.back().back();
  for (size_t k = rows.size() - 1; k-- > 0;) {
    const Whole after = sum(rows[k].back(), next);
    lines.add("{}+{}={}", rows[k].back(), next, after);
    next = after;
  }
  return {format("What comes next? {}", joined(terms)), lines.text(), next, ""};
}

}  // namespace tephra
