// PyTorch/XLA's metrics report as a value, however it came about: from a device of ours, or read from a text.
//
// A report is a sequence of blocks, each of which has metrics and then counters: PyTorch/XLA 2 prints that of its
// tracing and that of its runtime.  Figures are floating-point numbers, as they are upstream: nanoseconds are exact up
// to 104 days.  Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/tpu/metrics_snapshot.h"
#include "runner/report/xla/figure.h"

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
  int64_t total_samples = 0;           // of all time, as `accumulator` is
  std::optional<double> accumulator;   // their sum; none: what was read does not say it
  std::optional<double> mean, stddev;  // of a server's metrics (XRT)
  // Of the last samples, which percentiles are of, too: their sum, and their number, over the time between the first
  // and the last of them.  None where that is nothing.
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
  // Each in the order of the report.
  std::vector<ReportMetric> metrics;
  std::vector<ReportCounter> counters;

  // Null: there is none, or nothing was counted.
  const ReportMetric* metric(std::string_view name) const;
  // 0 where there is none: what was never counted is not printed.
  int64_t samples(std::string_view metric_name) const;
  int64_t counter(std::string_view name) const;
  bool operator==(const MetricsReport&) const = default;
};

// Fractions, each in (0, 1).
inline constexpr double kDefaultPercentiles[] = {0.01, 0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95, 0.99};

// Everything, in the order in which torch_xla prints it: what never moved is in it with zeros.  The percentile p of n
// values is element floor(p · n) of the ascending ones.
MetricsReport report_of(const backends::tpu::MetricsSnapshot& snapshot,
                        std::span<const double> percentiles = kDefaultPercentiles);

// As torch_xla prints it: without what never moved.
std::string report_text(const MetricsReport& report, DurationStyle style);

}  // namespace runner::report::xla
