#include "runner/report/plot.h"

#include <charconv>

#include "runner/cli/command.h"
#include "runner/cli/store_access.h"
#include "runner/formats/write.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "schema/base/json.h"
#include "store/queries.h"
#include "store/run_selection.h"

namespace runner::cli {
namespace {

struct PlotOptions : Options {
  std::vector<std::string> runs;  // the last is the metric
  std::string where, x_axis, smooth, svg_file;
  bool log = false;
  int64_t width = kNotGiven;  // default: width of the terminal
};

constexpr Argument kPlotArguments[] = {
    {"RUN ... METRIC", "", "runs or patterns such as 'digits*', and the metric to plot, or several: METRIC,METRIC",
     &PlotOptions::runs, Kind::kRunOrMetric},
    {"--where", "CONDITION", "also plot all runs that match, such as 'optimizer.lr < 1e-3'", &PlotOptions::where},
    {"--x", "step|time", "horizontal axis; time is in seconds since the start of the run; default: step",
     &PlotOptions::x_axis},
    {"--log", "", "use a logarithmic scale for values", &PlotOptions::log},
    {"--smooth", "S", "moving average with weight S on past values, such as 0.9; default: 0", &PlotOptions::smooth},
    {"--width", "N", "width in columns, 30 to 500; default: the width of the terminal, else 80", &PlotOptions::width},
    {"--svg", "FILE", "write an SVG image to FILE instead", &PlotOptions::svg_file}};

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
  RUN_CHECK(width >= report::kMinWidth && width <= report::kMaxWidth, ErrorKind::kUsage,
            "--width: expected {} to {} columns, got {}", report::kMinWidth, report::kMaxWidth, width);
  return static_cast<int>(width);
}

// A run and one of its metrics.
struct Series {
  store::RunRow run;
  std::string metric;
  std::vector<store::Point> points;
};

std::vector<std::string> metrics_of(const std::string& list) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    RUN_CHECK(comma > at, ErrorKind::kUsage, "plot: expected metrics such as train/loss,eval/loss, got '{}'", list);
    names.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

// Runs of a condition or a pattern need not have every metric.
std::vector<Series> chosen_series(store::Store& store, const PlotOptions& options,
                                  const std::vector<std::string>& metrics) {
  std::vector<Series> series;
  const auto add = [&](const store::RunRow& run, bool required) {
    for (const std::string& metric : metrics) {
      try {
        series.push_back({run, metric, store::metric_points(store, run, metric)});
      } catch (const Error& error) {
        if (required || error.kind() != ErrorKind::kNotFound) throw;
      }
    }
  };
  if (!options.where.empty())
    for (const store::RunRow& run : store::select_runs(store, {.where = options.where}).runs) add(run, false);
  for (size_t i = 0; i + 1 < options.runs.size(); ++i) {
    const std::string& selector = options.runs[i];
    const bool is_pattern = selector.find_first_of("*?") != std::string::npos;
    for (const store::RunRow& run : store::find_runs(store, selector)) add(run, !is_pattern);
  }
  RUN_CHECK(!series.empty(), ErrorKind::kNotFound, "nothing to plot: no such run has the metric {}",
            options.runs.back());
  return series;
}

report::Curve curve_of(const Series& series, bool with_metric, bool by_time, double amount) {
  report::Curve curve{fmt::format("{} {}", series.run.uid, series.run.name), {}};
  if (with_metric) curve.label += " " + series.metric;
  for (const store::Point& point : series.points) {
    const double seconds = static_cast<double>(point.time_ms - series.run.created_ms) / 1000;
    curve.points.push_back({by_time ? seconds : static_cast<double>(point.step), point.value});
  }
  report::smooth(curve.points, amount);
  return curve;
}

std::string document(const std::string& metric, const std::vector<report::Curve>& curves,
                     const std::vector<Series>& series, bool by_time, int columns) {
  json::List list;
  for (size_t i = 0; i < curves.size(); ++i) {
    const auto points = json::list_of(report::thinned(curves[i].points, columns), [&](const report::PlotPoint& p) {
      return json::List{by_time ? json::Value(p.x) : json::Value(static_cast<int64_t>(p.x)), p.y};
    });
    list.emplace_back(json::Object{
        {"run", series[i].run.uid}, {"name", series[i].run.name}, {"metric", series[i].metric}, {"points", points}});
  }
  return json::text(json::Object{{"metric", metric}, {"curves", std::move(list)}});
}

int plot(const PlotOptions& options, report::Output& out) {
  RUN_CHECK(options.runs.size() >= (options.where.empty() ? 2 : 1), ErrorKind::kUsage,
            "plot: missing argument METRIC after RUN; see `runner plot --help`");
  const double amount = smoothing(options.smooth);
  const bool by_time = options.x_axis == "time";
  const std::string& metric = options.runs.back();
  const std::vector<std::string> metrics = metrics_of(metric);
  store::Store store = open_store(options);
  const std::vector<Series> series = chosen_series(store, options, metrics);
  std::vector<report::Curve> curves;
  for (const Series& each : series) curves.push_back(curve_of(each, metrics.size() > 1, by_time, amount));
  const report::PlotStyle style{.title = metric,
                                .x_label = by_time ? "seconds" : "step",
                                .width = width_of(options.width, out),
                                .log = options.log,
                                .color = out.data_color()};
  RUN_CHECK(options.json || report::has_drawable(curves, options.log), ErrorKind::kNotFound,
            "nothing to plot: {} has no {} value", metric, options.log ? "finite positive" : "finite");
  if (!options.svg_file.empty()) {
    out.file(options.svg_file, report::plot_svg(curves, style), formats::FileKind::kSvg);
    out.say(fmt::format("wrote {}", report::file_text(options.svg_file)));
  }
  if (options.json) {
    out.data(document(metric, curves, series, by_time, 2 * style.width));
  } else if (options.svg_file.empty()) {
    out.colored_data(report::plot_text(curves, style));
  }
  return 0;
}

}  // namespace

const Command kPlotCommand{
    .name = "plot",
    .group = Group::kStore,
    .summary = "plot metrics of one or more runs, in the terminal or as an SVG image",
    .details =
        "The terminal plot uses braille dots.  --smooth averages all points before they are thinned to the\n"
        "resolution of the plot.  A NaN is a gap.  Without colours, several curves are drawn as letters.",
    .arguments = kPlotArguments,
    .examples =
        "runner plot @last train/loss\n"
        "runner plot @last @last~1 eval/loss --log --smooth 0.9\n"
        "runner plot digits eval/accuracy --svg accuracy.svg",
    .other_names = "graph",
    .has_json = true,
    .action = action<plot>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
