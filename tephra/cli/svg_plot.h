// SPDX-License-Identifier: Apache-2.0
// A plot of lines over logarithmic axes as an SVG text, for documents.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tephra {

struct PlotLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // both above 0
};

struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotLine> lines;
};

std::string svg_plot(const Plot& plot);

}  // namespace tephra
