// SPDX-License-Identifier: Apache-2.0
// Sorting by selection: the smallest of the rest, again and again.
#include <algorithm>

#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_sorting(Draw& draw, int64_t level) {
  std::vector<int64_t> rest;
  for (int64_t i = 0; i < level + 2; ++i) rest.push_back(draw.between(0, 99 * level));
  const std::string prompt = format("Sort in rising order: {}", joined(rest));
  Lines lines;
  std::vector<int64_t> sorted;
  while (rest.size() > 1) {
    const auto smallest = std::min_element(rest.begin(), rest.end());
    sorted.push_back(*smallest);
    rest.erase(smallest);
    lines.add("take {}, left {}", sorted.back(), joined(rest));
  }
  sorted.push_back(rest[0]);
  return {prompt, lines.text(), joined(sorted), ""};
}

}  // namespace tephra
