#include "runner/report/xla/report_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "backends/tpu/metrics.h"

namespace runner::report::xla {
namespace {

constexpr std::array<std::pair<MetricKind, std::string_view>, 3> kKinds{
    {{MetricKind::kValue, "value"}, {MetricKind::kBytes, "bytes"}, {MetricKind::kTime, "time"}}};

// Writes integers without a decimal point if a double represents them exactly.
json::Value number_json(double number) {
  constexpr double kExact = 9007199254740992;  // 2^53
  if (std::abs(number) <= kExact && number == std::floor(number)) return static_cast<int64_t>(number);
  return number;
}

json::Value number_json(std::optional<double> number) {
  return number ? number_json(*number) : json::Value();
}

json::Value metric_json(const ReportMetric& metric) {
  json::Object percentiles;
  for (const Percentile& percentile : metric.percentiles) {
    percentiles.emplace_back(fmt::format("{:g}", percentile.percent), number_json(percentile.value));
  }
  const auto kind = std::ranges::find(kKinds, metric.kind, [](const auto& row) { return row.first; });
  json::Object object{{"kind", std::string(kind->second)},      {"count", metric.total_samples},
                      {"sum", number_json(metric.accumulator)}, {"value_rate", number_json(metric.value_rate)},
                      {"rate", number_json(metric.rate)},       {"percentiles", std::move(percentiles)}};
  if (metric.mean) object.emplace_back("mean", number_json(*metric.mean));
  if (metric.stddev) object.emplace_back("stddev", number_json(*metric.stddev));
  return object;
}

// ---- reading -------------------------------------------------------------------------------------------------------

using json::member, json::number_of;

std::optional<std::vector<Percentile>> percentiles_of_json(const json::Value& object) {
  if (object.map() == nullptr) return {};
  std::vector<Percentile> percentiles;
  for (const auto& [key, value] : *object.map()) {
    Percentile percentile;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), percentile.percent);
    const auto number = number_of(value);
    if (error != std::errc() || end != key.data() + key.size() || !number) return {};
    percentile.value = *number;
    percentiles.push_back(percentile);
  }
  return percentiles;
}

std::optional<ReportMetric> metric_of_json(const std::string& name, const json::Value& object) {
  if (object.map() == nullptr || json::ObjectReader(object).find("sum") == nullptr) return {};
  const std::string kind = json::text_of(member(object, "kind"));
  const std::optional<int64_t> count = json::integer_of(member(object, "count"));
  auto percentiles = percentiles_of_json(member(object, "percentiles"));
  const auto row = std::ranges::find(kKinds, kind, [](const auto& known) { return known.second; });
  if (!count || !percentiles || row == kKinds.end()) return {};
  ReportMetric metric;
  metric.name = name;
  metric.block = static_cast<int>(backends::tpu::group_of(name));
  metric.kind = row->first;
  metric.total_samples = *count;
  metric.accumulator = number_of(member(object, "sum"));
  metric.mean = number_of(member(object, "mean"));
  metric.stddev = number_of(member(object, "stddev"));
  metric.value_rate = number_of(member(object, "value_rate"));
  metric.rate = number_of(member(object, "rate"));
  metric.percentiles = std::move(*percentiles);
  return metric;
}

}  // namespace

json::Object metrics_json(const MetricsReport& report) {
  json::Object object;
  for (const ReportMetric& metric : report.metrics) object.emplace_back(metric.name, metric_json(metric));
  return object;
}

json::Object counters_json(const MetricsReport& report) {
  json::Object object;
  for (const ReportCounter& counter : report.counters) object.emplace_back(counter.name, counter.value);
  return object;
}

json::Object report_json(const MetricsReport& report) {
  return {{"metrics", metrics_json(report)}, {"counters", counters_json(report)}};
}

std::string metrics_document(const backends::tpu::MetricsSnapshot& snapshot) {
  return json::line(report_json(report_of(snapshot)));
}

std::optional<MetricsReport> report_of_json(const json::Value& document) {
  const json::Value &metrics = member(document, "metrics"), &counters = member(document, "counters");
  if (metrics.map() == nullptr || counters.map() == nullptr) return {};
  MetricsReport report;
  for (const auto& [name, object] : *metrics.map()) {
    auto metric = metric_of_json(name, object);
    if (!metric) return {};
    report.metrics.push_back(std::move(*metric));
  }
  for (const auto& [name, value] : *counters.map()) {
    if (value.integer() == nullptr) return {};
    report.counters.push_back({name, static_cast<int>(backends::tpu::group_of(name)), *value.integer()});
  }
  return report;
}

}  // namespace runner::report::xla
