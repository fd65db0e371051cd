// SPDX-License-Identifier: Apache-2.0
// Union, intersection, difference and symmetric difference of two sets of numbers.
#include <algorithm>

#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

using Numbers = std::vector<int64_t>;

bool has(const Numbers& set, int64_t value) {
  return std::find(set.begin(), set.end(), value) != set.end();
}

Numbers draw_set(Draw& draw, int64_t size, int64_t largest) {
  Numbers set;
  while (static_cast<int64_t>(set.size()) < size) {
    const int64_t value = draw.between(0, largest);
    if (!has(set, value)) set.push_back(value);
  }
  return set;
}

// Takes the members of `from` whose membership in `other` is `wanted`.
void take(const Numbers& from, const Numbers& other, bool wanted, Numbers& result, Lines& lines) {
  std::string text;
  for (const int64_t value : from) {
    const bool inside = has(other, value);
    text += format("{}{} {}", text.empty() ? "" : ", ", value, inside ? "in" : "out");
    if (inside == wanted) result.push_back(value);
  }
  lines.add("{}", text);
}

}  // namespace

Task make_sets(Draw& draw, int64_t level) {
  const int64_t largest = 3 * level + 6;
  const Numbers a = draw_set(draw, draw.between(1, level + 2), largest);
  const Numbers b = draw_set(draw, draw.between(1, level + 2), largest);
  constexpr const char* kNames[] = {"union", "intersection", "difference", "symmetric difference"};
  const int64_t kind = draw.between(0, 3);
  Lines lines;
  Numbers result;
  if (kind == 0) result = a;
  if (kind == 0) lines.add("all of the first: {}", joined(a));
  if (kind == 1) take(a, b, true, result, lines);
  if (kind == 2 || kind == 3) take(a, b, false, result, lines);
  if (kind == 0 || kind == 3) take(b, a, false, result, lines);
  lines.add("together {}", result.empty() ? "empty" : joined(result));
  std::sort(result.begin(), result.end());
  return {format("What is the {} of {{{}}} and {{{}}}? Answer in rising order, or empty.",
                 kNames[kind], joined(a), joined(b)),
          lines.text(), result.empty() ? "empty" : joined(result), ""};
}

}  // namespace tephra
