#include "runner/report/xla/metrics_report.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include <fmt/format.h>

#include "backends/tpu/metrics.h"

namespace runner::report::xla {
namespace {

using backends::tpu::MetricSample;
using backends::tpu::MetricSnapshot;

template <class Entries>
auto find_named(const Entries& entries, std::string_view name) {
  return std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
}

// ---- from a snapshot ------------------------------------------------------------------------------------------------

int block_of(std::string_view name) {
  return static_cast<int>(backends::tpu::group_of(name));
}

std::vector<Percentile> percentiles_of(const std::vector<MetricSample>& ring, std::span<const double> fractions) {
  std::vector<int64_t> values;
  for (const MetricSample& sample : ring) values.push_back(sample.value);
  std::ranges::sort(values);
  std::vector<Percentile> percentiles;
  for (const double fraction : fractions) {
    if (values.empty()) break;
    const auto index = static_cast<size_t>(fraction * static_cast<double>(values.size()));
    percentiles.push_back({fraction * 100, static_cast<double>(values[index])});
  }
  return percentiles;
}

// Divides in the same order as upstream, because the last digits depend on it.
double per_second(double amount, int64_t window_ns) {
  return 1e6 * (amount / (static_cast<double>(window_ns) / 1000));
}

ReportMetric metric_of(const MetricSnapshot& snapshot, std::span<const double> fractions) {
  ReportMetric metric;
  metric.name = snapshot.name;
  metric.block = block_of(snapshot.name);
  metric.kind = snapshot.kind;
  metric.total_samples = snapshot.count;
  metric.accumulator = static_cast<double>(snapshot.sum);
  metric.percentiles = percentiles_of(snapshot.ring, fractions);
  if (const int64_t window_ns = snapshot.window_ns(); window_ns > 0) {
    int64_t sum = 0;
    for (const MetricSample& sample : snapshot.ring) sum += sample.value;
    metric.value_rate = per_second(static_cast<double>(sum), window_ns);
    metric.rate = per_second(static_cast<double>(snapshot.ring.size()), window_ns);
  }
  return metric;
}

constexpr auto kOrder = [](const auto& a, const auto& b) {
  return std::tie(a.block, a.name) < std::tie(b.block, b.name);
};

// ---- as text --------------------------------------------------------------------------------------------------------

void append_metric(std::string& text, const ReportMetric& metric, DurationStyle style) {
  const auto figure = [&](double value) { return metric_value_text(value, metric.kind, style); };
  const auto append = [&]<class... Values>(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text), format, std::forward<Values>(values)...);
  };
  append("Metric: {}\n", metric.name);
  append("  TotalSamples: {}\n", metric.total_samples);
  if (metric.accumulator) append("  Accumulator: {}\n", figure(*metric.accumulator));
  if (metric.mean) append("  Mean: {}\n", figure(*metric.mean));
  if (metric.stddev) append("  StdDev: {}\n", figure(*metric.stddev));
  if (metric.value_rate) append("  ValueRate: {} / second\n", figure(*metric.value_rate));
  if (metric.rate) append("  Rate: {:g} / second\n", *metric.rate);
  append("  Percentiles: ");
  for (const Percentile& percentile : metric.percentiles) {
    if (&percentile != &metric.percentiles.front()) append("; ");
    append("{:g}%={}", percentile.percent, figure(percentile.value));
  }
  append("\n");
}

}  // namespace

const ReportMetric* MetricsReport::metric(std::string_view name) const {
  const auto found = find_named(metrics, name);
  return found != metrics.end() && found->total_samples > 0 ? &*found : nullptr;
}

int64_t MetricsReport::samples(std::string_view metric_name) const {
  const ReportMetric* const found = metric(metric_name);
  return found != nullptr ? found->total_samples : 0;
}

int64_t MetricsReport::counter(std::string_view name) const {
  const auto found = find_named(counters, name);
  return found != counters.end() ? found->value : 0;
}

MetricsReport report_of(const backends::tpu::MetricsSnapshot& snapshot, std::span<const double> percentiles) {
  MetricsReport report;
  for (const MetricSnapshot& metric : snapshot.metrics) report.metrics.push_back(metric_of(metric, percentiles));
  for (const auto& counter : snapshot.counters) {
    report.counters.push_back({counter.name, block_of(counter.name), counter.value});
  }
  std::ranges::sort(report.metrics, kOrder);
  std::ranges::sort(report.counters, kOrder);
  return report;
}

std::string report_text(const backends::tpu::MetricsSnapshot& snapshot, const schema::Recipe& recipe) {
  MetricsReport report = report_of(snapshot);
  if (recipe.tpu.dialect == schema::TpuDialect::kXla1_7) report = as_in_1_7(std::move(report));
  return report_text(report, DurationStyle::kExact);
}

std::string report_text(const MetricsReport& report, DurationStyle style) {
  std::string text;
  auto metric = report.metrics.begin();
  auto counter = report.counters.begin();
  for (int block = 0; metric != report.metrics.end() || counter != report.counters.end(); ++block) {
    for (; metric != report.metrics.end() && metric->block == block; ++metric) {
      if (metric->total_samples > 0) append_metric(text, *metric, style);
    }
    for (; counter != report.counters.end() && counter->block == block; ++counter) {
      if (counter->value != 0) text += fmt::format("Counter: {}\n  Value: {}\n", counter->name, counter->value);
    }
  }
  return text;
}

}  // namespace runner::report::xla
