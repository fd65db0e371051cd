// SPDX-License-Identifier: Apache-2.0
// The shortest way through a grid with walls: all cells at distance 0, 1, 2, ... in turn.
#include <algorithm>

#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

struct Cell {
  int64_t row, column;
  bool operator==(const Cell&) const = default;
};

std::string to_text(const Cell& cell) { return format("{},{}", cell.row, cell.column); }

using Grid = std::vector<std::string>;

// The free neighbours of a layer that were not reached before, which become walls.
std::vector<Cell> next_layer(const std::vector<Cell>& layer, Grid& grid) {
  std::vector<Cell> next;
  const auto size = static_cast<int64_t>(grid.size());
  for (const Cell& cell : layer) {
    for (const Cell& way : {Cell{-1, 0}, Cell{0, -1}, Cell{0, 1}, Cell{1, 0}}) {
      const Cell to{cell.row + way.row, cell.column + way.column};
      if (std::min(to.row, to.column) < 0 || std::max(to.row, to.column) >= size) continue;
      char& mark = grid[static_cast<size_t>(to.row)][static_cast<size_t>(to.column)];
      if (mark == '#') continue;
      mark = '#';
      next.push_back(to);
    }
  }
  return next;
}

}  // namespace

Task make_maze(Draw& draw, int64_t level) {
  const int64_t size = 4 + level / 3;
  Grid grid;
  for (int64_t i = 0; i < size; ++i) grid.push_back(draw.word(size, "...#"));
  grid.front().front() = grid.back().back() = '.';
  const Cell goal{size - 1, size - 1};
  const std::string prompt = format(
      "How many steps from the top left to the bottom right, or none?\n{}", joined(grid, "\n"));
  Lines lines;
  std::string answer = "none";
  std::vector<Cell> layer{{0, 0}};
  grid[0][0] = '#';
  for (int64_t distance = 0; !layer.empty(); ++distance) {
    lines.add("{}: {}", distance, joined(layer));
    if (std::find(layer.begin(), layer.end(), goal) != layer.end()) {
      answer = format("{}", distance);
      break;
    }
    layer = next_layer(layer, grid);
  }
  if (answer == "none") lines.add("no way on");
  return {prompt, lines.text(), answer, ""};
}

}  // namespace tephra
