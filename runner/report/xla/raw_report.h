// A metrics report as its text says it, before it is known in which style its durations were printed.
//
// A text does not say the style, but often only one explains it: parts such as "60s" or "1000ms", percentiles that
// would fall, and, as long as a report holds all its samples, that ValueRate / Rate · TotalSamples is Accumulator.
// Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/report/xla/figure.h"
#include "runner/report/xla/metrics_report.h"

namespace runner::report::xla {

struct RawMetric {
  std::string name;
  int block = 0;
  MetricKind kind = MetricKind::kValue;  // of all figures
  int64_t total_samples = 0;
  std::optional<FigureReading> accumulator, mean, stddev, value_rate;
  std::optional<double> rate;
  std::vector<std::pair<double, FigureReading>> percentiles;
};

struct RawReport {
  std::vector<RawMetric> metrics;
  std::vector<ReportCounter> counters;
};

// How durations were read, and how sure that is.
struct DurationDecision {
  DurationStyle style = DurationStyle::kUpstream;
  bool told = false;      // by the caller
  int evidence = 0;       // what only this style explains
  int contradiction = 0;  // what only the other one does
  int differing = 0;      // durations that are others in the other style
  int ties = 0;           // durations that two values of this style print

  bool certain() const { return told || differing == 0 || evidence > contradiction; }
};

// `style`: none: that with more evidence; without any, upstream's, as reports are torch_xla's.
DurationDecision decide_durations(const RawReport& raw, std::optional<DurationStyle> style);
MetricsReport resolved(const RawReport& raw, DurationStyle style);

}  // namespace runner::report::xla
