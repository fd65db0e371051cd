// SPDX-License-Identifier: Apache-2.0
// Where a walk on a grid ends, with the place after each move.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {

Task make_walk(Draw& draw, int64_t level) {
  struct Direction {
    const char* name;
    int64_t x, y;
  };
  constexpr Direction kDirections[] = {
      {"north", 0, 1}, {"east", 1, 0}, {"south", 0, -1}, {"west", -1, 0}};
  int64_t x = draw.between(-level, level), y = draw.between(-level, level);
  std::string prompt = format("Start at ({},{}). Go", x, y);
  Lines lines;
  for (int64_t i = 0; i < level + 1; ++i) {
    const Direction& way = kDirections[draw.between(0, 3)];
    const int64_t steps = draw.between(1, 9);
    prompt += format("{} {} {}", i > 0 ? "," : "", way.name, steps);
    x += way.x * steps;
    y += way.y * steps;
    lines.add("{} {}: ({},{})", way.name, steps, x, y);
  }
  return {prompt + ". Where are you?", lines.text(), format("({},{})", x, y), ""};
}

}  // namespace tephra
