// Command metrics: metrics RUN, metrics RUN NAME.
#include "runner/cli/commands/shared_options.h"
#include "runner/cli/store_access.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/run_text.h"

namespace runner::cli {
namespace {

struct MetricsOptions : RunOptions {
  std::string metric;
};

constexpr Argument kMetricsArguments[] = {
    kRunArgument,
    {"[METRIC]", "", "print every point of this metric: step, tab, value with all digits", &MetricsOptions::metric,
     Kind::kMetric}};

void list_all(store::Store& store, const store::RunRow& run, bool json, report::Output& out) {
  const std::vector<store::MetricSummary> metrics = store::list_metrics(store, run.id);
  if (json) {
    out.data(report::metrics_document(metrics));
  } else if (metrics.empty()) {
    out.say(fmt::format("run {} has no metrics", run.uid));
  } else {
    out.colored_data(report::metrics_table(metrics).render(out.data_width(), out.data_color()));
  }
}

// One point per line with all digits, for other programs.
std::string lines_of(std::span<const store::Point> points) {
  fmt::memory_buffer text;
  for (const store::Point& point : points) {
    fmt::format_to(std::back_inserter(text), "{}\t{}\n", point.step, point.value);
  }
  return fmt::to_string(text);
}

int metrics(const MetricsOptions& options, report::Output& out) {
  store::Store store = open_store(options);
  const store::RunRow run = store::find_run(store, options.run);
  if (options.metric.empty()) {
    list_all(store, run, options.json, out);
    return 0;
  }
  const std::vector<store::Point> points = store::metric_points(store, run, options.metric);
  out.data(options.json ? report::points_document(run, options.metric, points) : lines_of(points));
  return 0;
}

}  // namespace

const Command kMetricsCommand{
    .name = "metrics",
    .group = Group::kStore,
    .summary = "list the metrics of a run, or every point of one",
    .details = "",
    .arguments = kMetricsArguments,
    .examples =
        "runner metrics @last\n"
        "runner metrics digits train/loss",
    .other_names = "logs",
    .has_json = true,
    .action = action<metrics>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
