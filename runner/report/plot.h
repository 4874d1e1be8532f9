// Curves as text in braille dots and as SVG.
//
// A NaN makes a gap.  Curves are thinned to what can be seen before they are drawn: of each column of dots the first,
// smallest, largest and last point (M4, Jugel et al., VLDB 2014), which draws the same picture.  Thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace runner::report {

struct PlotPoint {
  double x = 0, y = 0;
};

struct Curve {
  std::string label;
  std::vector<PlotPoint> points;  // x never falls
};

constexpr int kLeastWidth = 30, kLargestWidth = 500;  // columns
// Of a plot on a terminal of so many columns; 0: there is none.
constexpr int plot_width(int columns) {
  return columns > 0 ? columns : 80;
}

struct PlotStyle {
  std::string title;    // of the values
  std::string x_label;  // "step", "seconds"
  int width = 80;       // columns; text has kLeastWidth or more
  int height = 16;      // lines of the plot itself
  bool log = false;     // values on a logarithmic scale; what is not above 0 is a gap
  bool color = false;   // without, several curves are drawn in letters
};

// Exponential moving average with weight `amount` (0 to 1, without 1) on the past, without the bias of its start; a NaN
// stays one and is left out of the average.
void smooth(std::vector<PlotPoint>& points, double amount);

// Whether any of the values has a place on the scale: all finite ones, or those above zero where it is logarithmic.
bool has_drawable(std::span<const Curve> curves, bool log);

// At most four points for each of `columns` equal intervals of x, and every gap that is wide enough to be seen.
std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, int columns);

// Lines that end with a newline.
std::string plot_text(std::span<const Curve> curves, const PlotStyle& style);

// A document of its own, in 800 × 400 units.
std::string plot_svg(std::span<const Curve> curves, const PlotStyle& style);

}  // namespace runner::report
