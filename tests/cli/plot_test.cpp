// Plots, compared dot by dot.
#include "runner/report/plot.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace runner::report {
namespace {

Curve line_of(int points, double (*value)(int)) {
  Curve curve{"run", {}};
  for (int i = 0; i < points; ++i) curve.points.push_back({static_cast<double>(i + 1), value(i)});
  return curve;
}

TEST(Plot, RisingLineGoesFromCornerToCorner) {
  const Curve curve = line_of(2, [](int i) { return static_cast<double>(i); });
  EXPECT_EQ(plot_text(std::span(&curve, 1), {.title = "m", .x_label = "step", .width = 30, .height = 3}),
            "m\n"
            "  1 │                 ⣀⣀⠤⠤⠔⠒⠊⠉\n"
            "0.5 │        ⣀⣀⡠⠤⠔⠒⠊⠉⠉\n"
            "  0 │⣀⡠⠤⠔⠒⠒⠉⠉\n"
            "    └─────────────────────────\n"
            "     1         step          2\n"
            "     ⣿ run\n");
}

TEST(Plot, NanIsAGapAndCurvesWithoutColourAreLetters) {
  Curve gap = line_of(3, [](int i) { return i == 1 ? NAN : 1.0; });
  Curve other = line_of(3, [](int) { return 3.0; });
  gap.label = "first";
  other.label = "second\n";
  const std::vector<Curve> curves{gap, other};
  const std::string text = plot_text(curves, {.title = "m", .x_label = "step", .width = 30, .height = 2});
  EXPECT_EQ(text,
            "m\n"
            "3 │bbbbbbbbbbbbbbbbbbbbbbbbbbb\n"
            "1 │a                         a\n"
            "  └───────────────────────────\n"
            "   1          step           3\n"
            "   a first\n"
            "   b second \n");
  EXPECT_EQ(plot_text(curves, {.title = "m", .x_label = "step", .width = 30, .height = 2, .color = true}).find("aaa"),
            std::string::npos);
}

TEST(Plot, LogScaleOmitsValuesThatAreNotPositive) {
  const Curve curve = line_of(5, [](int i) { return i == 2 ? -1.0 : std::pow(10.0, i); });
  const std::string text =
      plot_text(std::span(&curve, 1), {.title = "m", .x_label = "x", .width = 30, .height = 3, .log = true});
  EXPECT_NE(text.find("m (log)\n1e+04 │"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  100 │"), std::string::npos) << text;
  EXPECT_NE(text.find("\n    1 │"), std::string::npos) << text;
}

TEST(Plot, NoDrawableValueGivesAnEmptyFrame) {
  for (const Curve& curve : {Curve{"none", {}}, Curve{"nan", {{1, NAN}}}, Curve{"inf", {{1, INFINITY}}}}) {
    const std::string text =
        plot_text(std::span(&curve, 1), {.title = "m", .x_label = "step", .width = 1, .height = 3});
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << text;
    EXPECT_EQ(text.find("⠁"), std::string::npos);
    EXPECT_NE(plot_svg(std::span(&curve, 1), {}).find("<path d=\"\""), std::string::npos);
  }
}

// Thinning keeps the first, last and extreme values of each column, and thus the picture.
TEST(Plot, ThinningKeepsExtremesAndEnds) {
  std::mt19937 random(3);
  Curve curve{"run", {}};
  for (int i = 0; i < 100'000; ++i)
    curve.points.push_back(
        {static_cast<double>(i), std::sin(i / 9000.0) + static_cast<double>(random() % 1000) / 5000.0});
  curve.points[54321].y = 50;
  curve.points[77777].y = NAN;
  const std::vector<PlotPoint> few = thinned(curve.points, 200);
  EXPECT_LE(few.size(), 800U);
  EXPECT_EQ(few.front().x, 0);
  EXPECT_EQ(few.back().x, 99'999);
  EXPECT_TRUE(std::any_of(few.begin(), few.end(), [](const PlotPoint& p) { return p.x == 54321 && p.y == 50; }));
  EXPECT_TRUE(std::is_sorted(few.begin(), few.end(), [](const PlotPoint& a, const PlotPoint& b) { return a.x < b.x; }));
  const PlotStyle style{.title = "m", .x_label = "step", .width = 60};
  Curve all = curve;
  EXPECT_EQ(thinned(thinned(all.points, 200), 200).size(), few.size());
  EXPECT_LT(plot_svg(std::span(&all, 1), style).size(), 60'000U);
}

// The average of equal values is that value from the beginning on.
TEST(Plot, SmoothingHasNoBiasAndSkipsGaps) {
  std::vector<PlotPoint> points{{1, 2}, {2, NAN}, {3, 2}, {4, 5}};
  smooth(points, 0.5);
  EXPECT_DOUBLE_EQ(points[0].y, 2);
  EXPECT_TRUE(std::isnan(points[1].y));
  EXPECT_DOUBLE_EQ(points[2].y, 2);
  // (0.5·5 + 0.25·2 + 0.125·2) / 0.875
  EXPECT_DOUBLE_EQ(points[3].y, (0.5 * 5 + 0.25 * 2 + 0.125 * 2) / 0.875);
}

TEST(Plot, SvgEscapesTexts) {
  Curve curve = line_of(3, [](int i) { return static_cast<double>(i); });
  curve.label = "<script> & \"x\"";
  const std::string svg = plot_svg(std::span(&curve, 1), {.title = "a<b", .x_label = "step"});
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_NE(svg.find("&lt;script&gt; &amp; &quot;x&quot;</text>"), std::string::npos);
  EXPECT_NE(svg.find("a&lt;b</text>"), std::string::npos);
  EXPECT_NE(svg.find("<path d=\"M70.0 340.0L420.0 190.0L770.0 40.0\""), std::string::npos) << svg;
}

}  // namespace
}  // namespace runner::report
