// A PyTorch/XLA metrics report as a value, from an emulated device or read from a text.
//
// A report is a sequence of blocks, each with metrics followed by counters. PyTorch/XLA 2 prints one block for tracing
// and one for the runtime. Figures are floating-point numbers as in PyTorch/XLA; nanoseconds are exact up to 104 days.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tpu/metrics_snapshot.h"
#include "runner/report/xla/metric_value.h"
#include "schema/recipe/recipe.h"

namespace runner::report::xla {

struct Percentile {
  double percent = 0;
  double value = 0;

  bool operator==(const Percentile&) const = default;
};

struct ReportMetric {
  std::string name;
  int block = 0;
  MetricKind kind = MetricKind::kValue;
  int64_t total_samples = 0;           // of the whole run, like `accumulator`
  std::optional<double> accumulator;   // sum of the samples; nullopt if the text does not have it
  std::optional<double> mean, stddev;  // only for metrics of an XRT server
  // Sum and number of the last samples, per second of the time between the first and last of them. Percentiles are of
  // the same samples. nullopt if that time is zero.
  std::optional<double> value_rate, rate;
  std::vector<Percentile> percentiles;

  bool operator==(const ReportMetric&) const = default;
};

struct ReportCounter {
  std::string name;
  int block = 0;
  int64_t value = 0;

  bool operator==(const ReportCounter&) const = default;
};

struct MetricsReport {
  // In the order of the report.
  std::vector<ReportMetric> metrics;
  std::vector<ReportCounter> counters;

  // Returns null if the metric does not exist or has no samples.
  const ReportMetric* metric(std::string_view name) const;
  // Return 0 if there is no such entry, because zero counts are not printed.
  int64_t samples(std::string_view metric_name) const;
  int64_t counter(std::string_view name) const;
  bool operator==(const MetricsReport&) const = default;
};

// Fractions in (0, 1).
inline constexpr double kDefaultPercentiles[] = {0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99};

// Returns all metrics and counters in the order in which torch_xla prints them, including those that are zero.
// Percentile p of n values is element floor(p · n) of the ascending values.
MetricsReport report_of(const backends::tpu::MetricsSnapshot& snapshot,
                        std::span<const double> percentiles = kDefaultPercentiles);

// Formats the report like torch_xla, without entries that are zero.
std::string report_text(const MetricsReport& report, DurationStyle style);

// Returns the report with the names and the layout of PyTorch/XLA 1.7: one block of metrics and one of counters, each
// sorted by name, with transfers to and from a server, and without metrics that were added later.
MetricsReport as_in_1_7(MetricsReport report);

// Returns the text of a run's report so far, in the dialect of its recipe.
std::string report_text(const backends::tpu::MetricsSnapshot& snapshot, const schema::Recipe& recipe);

}  // namespace runner::report::xla
