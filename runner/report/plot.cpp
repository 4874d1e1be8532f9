#include "runner/report/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/output.h"

namespace runner::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Maps values to fractions of the height.
struct Scale {
  double low = 0, high = 1;
  bool log = false;

  double position(double value) const { return (value - low) / (high - low); }
  double shown(double fraction) const {
    const double value = low + fraction * (high - low);
    return log ? std::pow(10.0, value) : value;
  }
};

struct Frame {
  Scale x, y;
};

// Returns the value to draw, which is its logarithm on a logarithmic scale; NaN if it cannot be drawn.
double plotted(double value, bool log) {
  if (!log) return std::isfinite(value) ? value : kNan;
  return value > 0 && std::isfinite(value) ? std::log10(value) : kNan;
}

void widen(Scale& scale, double value, bool& any) {
  if (std::isnan(value)) return;
  scale.low = any ? std::min(scale.low, value) : value;
  scale.high = any ? std::max(scale.high, value) : value;
  any = true;
}

// Widens a scale with a single value, so that the value is in the middle.
void open_up(Scale& scale, bool any) {
  if (!any) scale = {0, 1, scale.log};
  if (scale.high > scale.low) return;
  const double margin = scale.low == 0 ? 1 : std::abs(scale.low) * 0.1;
  scale.low -= margin;
  scale.high += margin;
}

std::vector<Curve> prepared(std::span<const Curve> curves, bool log, int columns) {
  std::vector<Curve> result;
  for (const Curve& curve : curves) {
    Curve& own = result.emplace_back(curve);
    for (PlotPoint& point : own.points) point.y = plotted(point.y, log);
    own.points = thinned(own.points, columns);
  }
  return result;
}

Frame frame_of(std::span<const Curve> curves, bool log) {
  Frame frame;
  frame.y.log = log;
  bool any_x = false, any_y = false;
  for (const Curve& curve : curves) {
    for (const PlotPoint& point : curve.points) {
      widen(frame.x, point.x, any_x);
      widen(frame.y, point.y, any_y);
    }
  }
  open_up(frame.x, any_x);
  open_up(frame.y, any_y);
  return frame;
}

// A grid of dots, two by four per cell, as in the Unicode block of braille patterns.
class Canvas {
 public:
  Canvas(int width, int height) : width_(width), height_(height), cells_(static_cast<size_t>(width * height)) {}

  void dot(int x, int y, int curve) {
    constexpr std::array<std::array<uint8_t, 2>, 4> kDots{{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
    if (x < 0 || y < 0 || x >= 2 * width_ || y >= 4 * height_) return;
    Cell& cell = cells_[static_cast<size_t>(y / 4 * width_ + x / 2)];
    cell.dots |= kDots[static_cast<size_t>(y % 4)][static_cast<size_t>(x % 2)];
    cell.curve = curve;
  }

  void line(int x0, int y0, int x1, int y1, int curve) {
    const int steps = std::max(std::abs(x1 - x0), std::abs(y1 - y0));
    for (int i = 0; i <= steps; ++i) {
      const double t = steps == 0 ? 0 : static_cast<double>(i) / steps;
      dot(static_cast<int>(std::lround(x0 + t * (x1 - x0))), static_cast<int>(std::lround(y0 + t * (y1 - y0))), curve);
    }
  }

  struct Cell {
    uint8_t dots = 0;
    int curve = 0;  // index of the curve drawn last
  };
  const Cell& cell(int column, int row) const { return cells_[static_cast<size_t>(row * width_ + column)]; }

 private:
  int width_, height_;
  std::vector<Cell> cells_;
};

void draw(Canvas& canvas, const Curve& curve, int index, const Frame& frame, int columns, int rows) {
  bool pen_down = false;
  int last_x = 0, last_y = 0;
  for (const PlotPoint& point : curve.points) {
    if (std::isnan(point.y)) {
      pen_down = false;
      continue;
    }
    const int x = static_cast<int>(std::lround(frame.x.position(point.x) * (2 * columns - 1)));
    const int y = static_cast<int>(std::lround((1 - frame.y.position(point.y)) * (4 * rows - 1)));
    pen_down ? canvas.line(last_x, last_y, x, y, index) : canvas.dot(x, y, index);
    last_x = x;
    last_y = y;
    pen_down = true;
  }
}

constexpr std::array kPalette{Color::kBlue, Color::kRed, Color::kGreen, Color::kYellow};

Color color_of_curve(size_t index) {
  return kPalette[index % kPalette.size()];
}

char letter_of(size_t index) {
  return static_cast<char>('a' + index % 26);
}

std::string braille(uint8_t dots) {  // U+2800 + dots
  return {static_cast<char>(0xE2), static_cast<char>(0xA0 + (dots >> 6)), static_cast<char>(0x80 + (dots & 0x3F))};
}

// Whether curves are told apart by letters: without colours, or if there are more curves than colours.
bool has_letters(size_t curves, bool color) {
  return curves > (color ? kPalette.size() : 1);
}

std::string cell_text(const Canvas::Cell& cell, size_t curves, bool color) {
  if (cell.dots == 0) return " ";
  const auto index = static_cast<size_t>(cell.curve);
  if (has_letters(curves, color)) return painted(std::string(1, letter_of(index)), color_of_curve(index), color);
  return painted(braille(cell.dots), color_of_curve(index), color);
}

std::string tick(double value) {
  return fmt::format("{:.4g}", value);
}

void finish(std::string& line) {
  line.erase(line.find_last_not_of(' ') + 1);
  line += '\n';
}

// Labels of the first, middle and last line.
std::string row_label(const Scale& scale, int row, int rows) {
  if (row != 0 && row != rows / 2 && row != rows - 1) return "";
  return tick(scale.shown(1 - static_cast<double>(row) / (rows - 1)));
}

std::string x_axis(const Frame& frame, const PlotStyle& style, int margin, int columns) {
  const std::string low = tick(frame.x.shown(0)), high = tick(frame.x.shown(1));
  std::string line(static_cast<size_t>(margin), ' ');
  line += "└";
  for (int i = 0; i < columns; ++i) line += "─";
  line += '\n';
  const int gap = columns - static_cast<int>(low.size() + high.size() + style.x_label.size());
  line += fmt::format("{:{}} {}{:{}}{}{:{}}{}\n", "", margin, low, "", std::max(1, gap / 2), style.x_label, "",
                      std::max(1, gap - gap / 2), high);
  return line;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : on_one_line(text)) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

// The first seven are those of Okabe and Ito, which remain distinct for readers with colour-blindness.
constexpr std::array kSvgPalette{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
                                 "#8c564b", "#7f3c8d", "#11a579", "#bdb000", "#e73f74", "#80ba5a", "#3953ac",
                                 "#888888", "#b5a0dc", "#7a4a00", "#00c5cf", "#ff8f81", "#2f4f2f"};

struct SvgBox {
  double left = 70, top = 40, width = 700, height = 300;
};

// Returns the SVG path of a curve. A gap starts a new subpath.
std::string svg_path(const Curve& curve, const Frame& frame, const SvgBox& box) {
  std::string path;
  bool pen_down = false;
  for (const PlotPoint& point : curve.points) {
    if (!std::isnan(point.y)) {
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', box.left + frame.x.position(point.x) * box.width,
                          box.top + (1 - frame.y.position(point.y)) * box.height);
    }
    pen_down = !std::isnan(point.y);
  }
  return path;
}

double position_of(const Scale& scale, double value) {
  return scale.position(scale.log ? std::log10(value) : value);
}

// Round values on a scale, about five: multiples of 1, 2 or 5 times a power of ten, or on a logarithmic scale powers of
// ten, with 2 and 5 times them on a short one. The ends of the scale if there are no two round values on it.
std::vector<double> round_ticks(const Scale& scale) {
  constexpr double kSteps = 5, kShortDecades = 2;
  std::vector<double> ticks;
  const auto add = [&](double value) {
    const double at = position_of(scale, value);
    if (at > -1e-9 && at < 1 + 1e-9) ticks.push_back(value);
  };
  const double span = scale.high - scale.low;
  if (scale.log) {
    const double stride = std::max(1.0, std::ceil(span / (2 * kSteps)));
    const double lowest = std::floor(scale.low);
    const auto strides = static_cast<int64_t>((scale.high - lowest) / stride);
    for (int64_t i = 0; i <= strides; ++i)
      for (const double digit : {1.0, 2.0, 5.0})
        if (digit == 1 || span <= kShortDecades) add(digit * std::pow(10.0, lowest + static_cast<double>(i) * stride));
  } else {
    const double power = std::pow(10.0, std::floor(std::log10(span / kSteps)));
    const double digits = span / kSteps / power;
    const double step = power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
    const auto first = static_cast<int64_t>(std::ceil(scale.low / step)),
               last = static_cast<int64_t>(scale.high / step);
    for (int64_t i = first; i <= last + 1 && std::ssize(ticks) < 20; ++i) add(static_cast<double>(i) * step);
  }
  return ticks.size() >= 2 ? ticks : std::vector<double>{scale.shown(0), scale.shown(1)};
}

std::string svg_ticks(const Frame& frame, const SvgBox& box) {
  std::string out;
  for (const double value : round_ticks(frame.y)) {
    const double y = box.top + box.height * (1 - position_of(frame.y, value));
    out += fmt::format("<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", box.left,
                       box.left + box.width, y, y);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", box.left - 6, y + 4, tick(value));
  }
  for (const double value : round_ticks(frame.x))
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                       box.left + box.width * position_of(frame.x, value), box.top + box.height + 18, tick(value));
  return out;
}

}  // namespace

bool has_drawable(std::span<const Curve> curves, bool log) {
  return std::ranges::any_of(curves, [log](const Curve& curve) {
    return std::ranges::any_of(curve.points, [log](const PlotPoint& p) { return !std::isnan(plotted(p.y, log)); });
  });
}

void smooth(std::vector<PlotPoint>& points, double amount) {
  double average = 0, weight = 0;
  for (PlotPoint& point : points) {
    if (!std::isfinite(point.y)) continue;
    average = amount * average + (1 - amount) * point.y;
    weight = amount * weight + (1 - amount);
    point.y = average / weight;
  }
}

std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, int columns) {
  if (points.size() <= static_cast<size_t>(4 * columns)) return {points.begin(), points.end()};
  const double low = points.front().x, width = points.back().x - low;
  const auto column_of = [&](const PlotPoint& p) {
    return width > 0 ? std::min(columns - 1, static_cast<int>((p.x - low) / width * columns)) : 0;
  };
  std::vector<PlotPoint> kept;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin, least = begin, most = begin;
    const int column = column_of(points[begin]);
    for (; end < points.size() && column_of(points[end]) == column; ++end) {
      if (std::isnan(points[least].y) || points[end].y < points[least].y) least = end;
      if (std::isnan(points[most].y) || points[end].y > points[most].y) most = end;
    }
    std::array<size_t, 4> chosen{begin, least, most, end - 1};
    std::sort(chosen.begin(), chosen.end());
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (i == 0 || chosen[i] != chosen[i - 1]) kept.push_back(points[chosen[i]]);
    }
    begin = end;
  }
  return kept;
}

std::string plot_text(std::span<const Curve> curves, const PlotStyle& style) {
  const std::vector<Curve> shown = prepared(curves, style.log, 2 * std::max(style.width, kMinWidth));
  const Frame frame = frame_of(shown, style.log);
  int margin = 0;
  for (int row = 0; row < style.height; ++row) {
    margin = std::max(margin, static_cast<int>(row_label(frame.y, row, style.height).size()) + 1);
  }
  const int columns = std::max(style.width, kMinWidth) - margin - 1;
  Canvas canvas(columns, style.height);
  for (size_t i = 0; i < shown.size(); ++i) draw(canvas, shown[i], static_cast<int>(i), frame, columns, style.height);

  std::string out = painted(on_one_line(style.title), Color::kBold, style.color) + (style.log ? " (log)\n" : "\n");
  for (int row = 0; row < style.height; ++row) {
    std::string line = fmt::format("{:>{}} │", row_label(frame.y, row, style.height), margin - 1);
    for (int column = 0; column < columns; ++column) {
      line += cell_text(canvas.cell(column, row), shown.size(), style.color);
    }
    finish(line);
    out += line;
  }
  out += x_axis(frame, style, margin, columns);
  for (size_t i = 0; i < shown.size(); ++i) {
    if (shown[i].label.empty()) continue;
    const std::string mark = has_letters(shown.size(), style.color) ? std::string{letter_of(i)} : "⣿";
    out += fmt::format("{:{}} {} {}\n", "", margin, painted(mark, color_of_curve(i), style.color),
                       on_one_line(shown[i].label));
  }
  return out;
}

std::string plot_svg(std::span<const Curve> curves, const PlotStyle& style) {
  const SvgBox box;
  const std::vector<Curve> shown = prepared(curves, style.log, static_cast<int>(box.width));
  const Frame frame = frame_of(shown, style.log);
  const double legend = box.top + box.height + 40;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      legend + 20 * static_cast<double>(shown.size()));
  out += fmt::format("<text x=\"{}\" y=\"24\" font-size=\"15\">{}{}</text>\n", box.left, escaped(style.title),
                     style.log ? " (log)" : "");
  out += svg_ticks(frame, box);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", box.left + box.width,
                     box.top + box.height + 34, escaped(style.x_label));
  for (size_t i = 0; i < shown.size(); ++i) {
    const char* color = kSvgPalette[i % kSvgPalette.size()];
    out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n",
                       svg_path(shown[i], frame, box), color);
    const double y = legend + 20 * static_cast<double>(i);
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"{}\">{}</text>\n", box.left, y, color, escaped(shown[i].label));
  }
  return out + "</svg>\n";
}

}  // namespace runner::report
