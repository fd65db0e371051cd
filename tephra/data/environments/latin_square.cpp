// SPDX-License-Identifier: Apache-2.0
// The missing number of a Latin square, from its row or its column, whichever is complete.
#include "tephra/data/environments/environment.h"
#include "tephra/data/environments/lines.h"

namespace tephra {
namespace {

using Row = std::vector<int64_t>;

// Rows 1 to n in turn, with rows, columns and symbols shuffled.
std::vector<Row> draw_square(Draw& draw, int64_t n) {
  std::vector<int64_t> rows, columns, symbols;
  for (int64_t i = 0; i < n; ++i) {
    rows.push_back(i);
    columns.push_back(i);
    symbols.push_back(i + 1);
  }
  draw.shuffle(rows);
  draw.shuffle(columns);
  draw.shuffle(symbols);
  std::vector<Row> square;
  for (const int64_t row : rows) {
    Row& line = square.emplace_back();
    for (const int64_t column : columns) {
      line.push_back(symbols[static_cast<size_t>((row + column) % n)]);
    }
  }
  return square;
}

}  // namespace

Task make_latin_square(Draw& draw, int64_t level) {
  const int64_t n = 4 + level / 3;
  const std::vector<Row> square = draw_square(draw, n);
  const int64_t row = draw.between(0, n - 1), column = draw.between(0, n - 1);
  const bool by_row = draw.flip();  // the other direction has holes
  std::string text;
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < n; ++i) {
    std::vector<std::string> cells;
    for (int64_t j = 0; j < n; ++j) {
      const int64_t value = square[static_cast<size_t>(i)][static_cast<size_t>(j)];
      const bool asked = i == row && j == column;
      const bool on_line = by_row ? i == row : j == column;
      if (on_line && !asked) seen.push_back(value);
      const bool across = by_row ? j == column : i == row;
      const bool hole = !on_line && (across ? draw.flip() : draw.between(0, 3) == 0);
      cells.push_back(asked ? "?" : hole ? "_" : format("{}", value));
    }
    text += "\n" + joined(cells);
  }
  Lines lines;
  lines.add("{} has {}", by_row ? "row" : "column", joined(seen));
  std::string missing;
  for (int64_t value = 1; value <= n; ++value) {
    bool there = false;
    for (const int64_t other : seen) there |= other == value;
    missing += format("{}{} {}", value > 1 ? ", " : "", value, there ? "yes" : "no");
  }
  lines.add("{}", missing);
  const int64_t answer = square[static_cast<size_t>(row)][static_cast<size_t>(column)];
  return {format("Each row and column of this square has 1 to {} once. What is ?{}", n, text),
          lines.text(), format("{}", answer), ""};
}

}  // namespace tephra
