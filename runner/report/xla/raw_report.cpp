#include "runner/report/xla/raw_report.h"

#include <algorithm>
#include <cmath>

namespace runner::report::xla {
namespace {

DurationStyle other(DurationStyle style) {
  return style == DurationStyle::kExact ? DurationStyle::kUpstream : DurationStyle::kExact;
}

std::optional<double> value_in(const MetricValue& figure, DurationStyle style) {
  if (figure.kind != MetricKind::kTime) return figure.value;
  return style == DurationStyle::kExact ? figure.duration.exact : figure.duration.upstream;
}

// A figure that is invalid in this style gets its value in the other style. The reader omits figures that are invalid
// in both.
double resolve(const MetricValue& figure, DurationStyle style) {
  return value_in(figure, style).value_or(value_in(figure, other(style)).value_or(0));
}

template <class Visit>
void for_each_duration(const RawReport& raw, const Visit& visit) {
  for (const RawMetric& metric : raw.metrics) {
    if (metric.kind != MetricKind::kTime) continue;
    for (const auto& figure : {metric.accumulator, metric.mean, metric.stddev, metric.value_rate}) {
      if (figure) visit(figure->duration);
    }
    for (const auto& [percent, figure] : metric.percentiles) visit(figure.duration);
  }
}

// ---- evidence -------------------------------------------------------------------------------------------------------

bool percentiles_rise(const RawMetric& metric, DurationStyle style) {
  for (size_t i = 1; i < metric.percentiles.size(); ++i) {
    if (resolve(metric.percentiles[i].second, style) < resolve(metric.percentiles[i - 1].second, style)) return false;
  }
  return true;
}

// Returns whether the rates are consistent with the sum, to the printed precision: six digits of Rate, nanoseconds of
// ValueRate.
bool rates_fit(const RawMetric& metric, DurationStyle style) {
  const double per_second = resolve(*metric.value_rate, style), sum = resolve(*metric.accumulator, style);
  const double from_rates = per_second / *metric.rate * static_cast<double>(metric.total_samples);
  constexpr double kSixDigits = 1e-5;
  return std::abs(from_rates - sum) <= sum * (kSixDigits + 1 / std::max(per_second, 1.0));
}

bool has_all_samples(const RawMetric& metric) {
  return metric.accumulator && metric.value_rate && metric.rate && *metric.rate > 0 &&
         metric.total_samples <= static_cast<int64_t>(backends::tpu::kMetricRing);
}

// Counts facts that are consistent with this style but not with the other one.
int evidence_for(DurationStyle style, const RawReport& raw) {
  int count = 0;
  const auto only_here = [&](bool here, bool there) { count += here && !there ? 1 : 0; };
  for_each_duration(raw, [&](const DurationReading& duration) {
    const bool exact = style == DurationStyle::kExact;
    const auto &here = exact ? duration.exact : duration.upstream, &there = exact ? duration.upstream : duration.exact;
    only_here(here.has_value(), there.has_value());
  });
  for (const RawMetric& metric : raw.metrics) {
    if (metric.kind != MetricKind::kTime) continue;
    only_here(percentiles_rise(metric, style), percentiles_rise(metric, other(style)));
    if (has_all_samples(metric)) only_here(rates_fit(metric, style), rates_fit(metric, other(style)));
  }
  return count;
}

}  // namespace

DurationDecision decide_durations(const RawReport& raw, std::optional<DurationStyle> style) {
  const int upstream = evidence_for(DurationStyle::kUpstream, raw), exact = evidence_for(DurationStyle::kExact, raw);
  DurationDecision decision;
  decision.specified = style.has_value();
  decision.style = style.value_or(exact > upstream ? DurationStyle::kExact : DurationStyle::kUpstream);
  const bool is_exact = decision.style == DurationStyle::kExact;
  decision.evidence = is_exact ? exact : upstream;
  decision.contradiction = is_exact ? upstream : exact;
  for_each_duration(raw, [&](const DurationReading& duration) {
    if (duration.exact && duration.upstream && *duration.exact != *duration.upstream) ++decision.differing;
    if (!is_exact && duration.tie) ++decision.ties;
  });
  return decision;
}

MetricsReport resolved(const RawReport& raw, DurationStyle style) {
  MetricsReport report;
  report.counters = raw.counters;
  const auto optional = [&](const std::optional<MetricValue>& figure) {
    return figure ? std::optional(resolve(*figure, style)) : std::nullopt;
  };
  for (const RawMetric& metric : raw.metrics) {
    ReportMetric& to = report.metrics.emplace_back();
    to.name = metric.name;
    to.block = metric.block;
    to.kind = metric.kind;
    to.total_samples = metric.total_samples;
    to.accumulator = optional(metric.accumulator);
    to.mean = optional(metric.mean);
    to.stddev = optional(metric.stddev);
    to.value_rate = optional(metric.value_rate);
    to.rate = metric.rate;
    for (const auto& [percent, figure] : metric.percentiles)
      to.percentiles.push_back({percent, resolve(figure, style)});
  }
  return report;
}

}  // namespace runner::report::xla
