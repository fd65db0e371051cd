// SPDX-License-Identifier: Apache-2.0
// The next term of a polynomial sequence, by its table of differences.
#include <algorithm>

#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

std::vector<int64_t> differences(const std::vector<int64_t>& terms) {
  std::vector<int64_t> result;
  for (size_t i = 1; i < terms.size(); ++i) result.push_back(terms[i] - terms[i - 1]);
  return result;
}

}  // namespace

Task make_progression(Draw& draw, int64_t level) {
  const int64_t degree = std::min<int64_t>(1 + (level - 1) / 4, 6);
  const int64_t size = 20 + 9 * std::min<int64_t>(level, 1000000000);
  // Row k of the table starts with edge[k]; the last row is constant.
  std::vector<int64_t> edge;
  for (int64_t k = 0; k <= degree; ++k) edge.push_back(draw.between(k == degree ? 1 : -size, size));
  std::vector<int64_t> terms;
  for (int64_t i = 0; i < degree + 3; ++i) {
    terms.push_back(edge[0]);
    for (size_t k = 0; k + 1 < edge.size(); ++k) edge[k] += edge[k + 1];
  }
  Lines lines;
  std::vector<std::vector<int64_t>> rows{terms};
  for (int64_t k = 0; k < degree; ++k) {
    rows.push_back(differences(rows.back()));
    lines.add("differences {}", joined(rows.back()));
  }
  int64_t next = rows.back().back();
  for (size_t k = rows.size() - 1; k-- > 0;) {
    lines.add("{}+{}={}", rows[k].back(), next, rows[k].back() + next);
    next += rows[k].back();
  }
  return {format("What comes next? {}", joined(terms)), lines.text(), format("{}", next), ""};
}

}  // namespace tephra
