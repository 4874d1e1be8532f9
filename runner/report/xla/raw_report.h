// A metrics report as read from its text, before the style of its durations is known.
//
// The text does not state the style, but often only one style is consistent with it. Evidence: parts such as "60s" or
// "1000ms"; percentiles that would decrease; and, if the report contains all its samples, ValueRate / Rate ·
// TotalSamples = Accumulator. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runner/report/xla/metric_value.h"
#include "runner/report/xla/metrics_report.h"

namespace runner::report::xla {

struct RawMetric {
  std::string name;
  int block = 0;
  MetricKind kind = MetricKind::kValue;  // of all figures of the metric
  int64_t total_samples = 0;
  std::optional<MetricValue> accumulator, mean, stddev, value_rate;
  std::optional<double> rate;
  std::vector<std::pair<double, MetricValue>> percentiles;
};

struct RawReport {
  std::vector<RawMetric> metrics;
  std::vector<ReportCounter> counters;
};

// The style chosen for durations, and the certainty of the choice.
struct DurationDecision {
  DurationStyle style = DurationStyle::kUpstream;
  bool specified = false;  // specified by the caller
  int evidence = 0;        // number of facts consistent only with this style
  int contradiction = 0;   // number of facts consistent only with the other style
  int differing = 0;       // number of durations with another value in the other style
  int ties = 0;            // number of durations that have two possible values in this style

  bool certain() const { return specified || differing == 0 || evidence > contradiction; }
};

// `style`: style to use; if nullopt, the style with more evidence, or kUpstream if there is none, because reports come
// from torch_xla.
DurationDecision decide_durations(const RawReport& raw, std::optional<DurationStyle> style);
MetricsReport resolved(const RawReport& raw, DurationStyle style);

}  // namespace runner::report::xla
