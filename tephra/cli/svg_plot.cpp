// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/svg_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tephra/base/format.h"

namespace tephra {
namespace {

constexpr double kWidth = 640, kHeight = 400, kLeft = 64, kRight = 16, kTop = 40, kBottom = 48;
constexpr std::array<const char*, 5> kColours = {"#0b6e99", "#c4501b", "#3f7d20", "#7a3e9d",
                                                 "#8a6d00"};

// Powers of ten around the values, and where a value lies between them.
struct Axis {
  int low = 0, high = 1;
  double from = 0, to = 1;  // in the picture

  double at(double value) const {
    return from + (to - from) * (std::log10(value) - low) / (high - low);
  }
};

Axis axis_of(const Plot& plot, bool x, double from, double to) {
  double least = 1e300, most = 1e-300;
  for (const PlotLine& line : plot.lines) {
    for (const auto& point : line.points) {
      least = std::min(least, x ? point.first : point.second);
      most = std::max(most, x ? point.first : point.second);
    }
  }
  Axis axis{static_cast<int>(std::floor(std::log10(least))),
            static_cast<int>(std::ceil(std::log10(most))), from, to};
  axis.high = std::max(axis.high, axis.low + 1);
  return axis;
}

std::string power_text(int power) {
  if (power < 0) return format("{:g}", std::pow(10.0, power));
  constexpr std::array<const char*, 10> kNames = {"1",    "10", "100", "1k",   "10k",
                                                  "100k", "1M", "10M", "100M", "1G"};
  return power < 10 ? kNames[static_cast<size_t>(power)] : format("1e{}", power);
}

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return format("<text x='{:.1f}' y='{:.1f}' text-anchor='{}'>{}</text>\n", x, y, anchor, text);
}

std::string grid(const Axis& x, const Axis& y) {
  std::string svg;
  const auto line = [&](double x1, double y1, double x2, double y2) {
    svg += format("<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='#ddd'/>\n", x1, y1,
                  x2, y2);
  };
  for (int p = x.low; p <= x.high; ++p) {
    const double at = x.at(std::pow(10.0, p));
    line(at, y.from, at, y.to);
    svg += text_at(at, kHeight - kBottom + 16, "middle", power_text(p));
  }
  for (int p = y.low; p <= y.high; ++p) {
    const double at = y.at(std::pow(10.0, p));
    line(x.from, at, x.to, at);
    svg += text_at(kLeft - 6, at + 4, "end", power_text(p));
  }
  return svg;
}

}  // namespace

std::string svg_plot(const Plot& plot) {
  const Axis x = axis_of(plot, true, kLeft, kWidth - kRight);
  const Axis y = axis_of(plot, false, kHeight - kBottom, kTop);
  std::string svg = format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' font-family='sans-serif' "
      "font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n",
      kWidth, kHeight);
  svg += text_at(kLeft, 16, "start", plot.title) + text_at(kLeft, 32, "start", plot.y_label) +
         text_at((kLeft + kWidth) / 2, kHeight - 8, "middle", plot.x_label) + grid(x, y);
  for (size_t i = 0; i < plot.lines.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    std::string points;
    for (const auto& [px, py] : plot.lines[i].points) {
      points += format("{:.1f},{:.1f} ", x.at(px), y.at(py));
      svg +=
          format("<circle cx='{:.1f}' cy='{:.1f}' r='3' fill='{}'/>\n", x.at(px), y.at(py), colour);
    }
    svg += format("<polyline points='{}' fill='none' stroke='{}' stroke-width='2'/>\n", points,
                  colour);
    svg += format(
        "<g fill='{}'>{}</g>\n", colour,
        text_at(kLeft + 10, kTop + 16 + 16 * static_cast<double>(i), "start", plot.lines[i].name));
  }
  return svg + "</svg>\n";
}

}  // namespace tephra
