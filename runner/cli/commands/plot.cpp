#include "runner/report/plot.h"

#include <charconv>

#include "runner/cli/commands/commands.h"
#include "runner/cli/store_access.h"
#include "runner/formats/write.h"
#include "runner/report/format.h"
#include "schema/base/json.h"
#include "store/queries.h"

namespace runner::cli {
namespace {

// Weight of the past in the moving average; 0 for no smoothing.
double smoothing(const std::string& text) {
  if (text.empty()) return 0;
  double amount = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  RUN_CHECK(error == std::errc() && end == text.data() + text.size() && amount >= 0 && amount < 1, ErrorKind::kUsage,
            "--smooth: expected a number in [0, 1), got '{}'", text);
  return amount;
}

int width_of(int64_t width, const report::Output& out) {
  if (width == Options::kNotGiven) return report::plot_width(out.data_width());
  RUN_CHECK(width >= report::kLeastWidth && width <= report::kLargestWidth, ErrorKind::kUsage,
            "--width: expected {} to {} columns, got {}", report::kLeastWidth, report::kLargestWidth, width);
  return static_cast<int>(width);
}

report::Curve curve_of(store::Store& store, const store::RunRow& run, const std::string& metric, bool by_time,
                       double amount) {
  report::Curve curve{fmt::format("{} {}", run.uid, run.name), {}};
  for (const store::Point& point : store::metric_points(store, run, metric)) {
    const double seconds = static_cast<double>(point.time_ms - run.created_ms) / 1000;
    curve.points.push_back({by_time ? seconds : static_cast<double>(point.step), point.value});
  }
  report::smooth(curve.points, amount);
  return curve;
}

std::string document(const std::string& metric, const std::vector<report::Curve>& curves,
                     const std::vector<store::RunRow>& runs, bool by_time, int columns) {
  json::List list;
  for (size_t i = 0; i < curves.size(); ++i) {
    const auto points = json::list_of(report::thinned(curves[i].points, columns), [&](const report::PlotPoint& p) {
      return json::List{by_time ? json::Value(p.x) : json::Value(static_cast<int64_t>(p.x)), p.y};
    });
    list.emplace_back(json::Object{{"run", runs[i].uid}, {"name", runs[i].name}, {"points", points}});
  }
  return json::text(json::Object{{"metric", metric}, {"curves", std::move(list)}});
}

}  // namespace

int plot(const PlotOptions& options, report::Output& out) {
  RUN_CHECK(options.runs.size() >= 2, ErrorKind::kUsage,
            "plot: missing argument METRIC after RUN; see `runner plot --help`");
  const double amount = smoothing(options.smooth);
  const bool by_time = options.x_axis == "time";
  const std::string& metric = options.runs.back();
  store::Store store = open_store(options);
  std::vector<store::RunRow> runs;
  std::vector<report::Curve> curves;
  for (size_t i = 0; i + 1 < options.runs.size(); ++i) {
    runs.push_back(store::find_run(store, options.runs[i]));
    curves.push_back(curve_of(store, runs.back(), metric, by_time, amount));
  }
  const report::PlotStyle style{.title = metric,
                                .x_label = by_time ? "seconds" : "step",
                                .width = width_of(options.width, out),
                                .log = options.log,
                                .color = out.data_color()};
  RUN_CHECK(options.json || report::has_drawable(curves, options.log), ErrorKind::kNotFound,
            "nothing to plot: {} has no {} value", metric, options.log ? "finite positive" : "finite");
  if (!options.svg_file.empty()) {
    formats::write_file(options.svg_file, report::plot_svg(curves, style));
    out.talk(fmt::format("wrote {}\n", report::file_text(options.svg_file)));
  }
  if (options.json) {
    out.data(document(metric, curves, runs, by_time, 2 * style.width));
  } else if (options.svg_file.empty()) {
    out.data(report::plot_text(curves, style));
  }
  return 0;
}

}  // namespace runner::cli
