// Plots curves as text with braille dots, and as SVG.
//
// A NaN makes a gap. Before drawing, curves are reduced to the first, smallest, largest and last point of each column
// of dots, which gives the same picture (M4, Jugel et al., VLDB 2014). Thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace runner::report {

struct PlotPoint {
  double x = 0, y = 0;
};

struct Curve {
  std::string label;              // in the legend; "": none
  std::vector<PlotPoint> points;  // x does not decrease
};

constexpr int kMinWidth = 30, kMaxWidth = 500;  // columns
// Returns the plot width for a terminal with `columns` columns; 0 means that there is no terminal.
constexpr int plot_width(int columns) {
  return columns > 0 ? columns : 80;
}

struct PlotStyle {
  std::string title;    // title of the values
  std::string x_label;  // "step", "seconds"
  int width = 80;       // in columns; text plots have at least kMinWidth
  int height = 16;      // lines of the plot area
  bool log = false;     // logarithmic scale of the values; values that are not positive are gaps
  bool color = false;   // without colour, several curves are drawn with letters
};

// Bias-corrected exponential moving average with weight `amount` in [0, 1) on the past. A NaN stays NaN and does not
// enter the average.
void smooth(std::vector<PlotPoint>& points, double amount);

// Returns whether any value can be drawn: a finite one, or a positive one on a logarithmic scale.
bool has_drawable(std::span<const Curve> curves, bool log);

// Returns at most four points for each of `columns` equal intervals of x, and keeps every gap that is wide enough to be
// visible.
std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, int columns);

// Each line ends with a newline.
std::string plot_text(std::span<const Curve> curves, const PlotStyle& style);

// A standalone document of 800 × 400 units.
std::string plot_svg(std::span<const Curve> curves, const PlotStyle& style);

}  // namespace runner::report
