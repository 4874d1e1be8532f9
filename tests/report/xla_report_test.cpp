// Metrics reports as values, created from snapshots, and as text and JSON.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/tpu/metrics.h"
#include "runner/report/xla/metric_value.h"
#include "runner/report/xla/metrics_report.h"
#include "runner/report/xla/report_json.h"

namespace runner::report::xla {
namespace {

using backends::tpu::MetricsRegistry;
using backends::tpu::XlaCounter;
using backends::tpu::XlaMetric;

TEST(XlaFigure, TextOfThreeKinds) {
  const auto text = [](double value, MetricKind kind) { return metric_value_text(value, kind, DurationStyle::kExact); };
  EXPECT_EQ(text(233, MetricKind::kValue), "233.00");
  EXPECT_EQ(text(0.125, MetricKind::kValue), "0.12");
  EXPECT_EQ(text(0, MetricKind::kBytes), "0.00B");
  EXPECT_EQ(text(1023, MetricKind::kBytes), "1023.00B");
  EXPECT_EQ(text(50'688, MetricKind::kBytes), "49.50KB");
  EXPECT_EQ(text(1024 * 1024 - 1, MetricKind::kBytes), "1024.00KB");
  EXPECT_EQ(text(3e18, MetricKind::kBytes), "2664.54PB");
  EXPECT_EQ(text(1'004'242, MetricKind::kTime), "001ms004.242us");
}

TEST(XlaFigure, ReadsTextOfThreeKinds) {
  const struct {
    const char* text;
    MetricKind kind;
    double value;
  } rows[] = {{"233.00", MetricKind::kValue, 233},
              {"49.50KB", MetricKind::kBytes, 50'688},
              {"4.00B", MetricKind::kBytes, 4},
              {"2.79GB", MetricKind::kBytes, 2.79 * 1024 * 1024 * 1024}};
  for (const auto& row : rows) {
    const auto reading = read_metric_value(row.text);
    ASSERT_TRUE(reading) << row.text;
    EXPECT_EQ(reading->kind, row.kind) << row.text;
    EXPECT_EQ(reading->value, row.value) << row.text;
    EXPECT_EQ(metric_value_text(reading->value, row.kind, DurationStyle::kExact), row.text);
  }
  const auto almost = read_metric_value("1024.00KB");
  EXPECT_LT(almost->value, 1024 * 1024);
  EXPECT_EQ(metric_value_text(almost->value, MetricKind::kBytes, DurationStyle::kExact), "1024.00KB");
  EXPECT_EQ(read_metric_value("003.654us")->duration.exact, 3654);
  EXPECT_TRUE(std::isnan(read_metric_value("nanB")->value));
  for (const char* text : {"", "B", "KB", "4.00b", "4.00 B", "12x", "3.1.4", "us"})
    EXPECT_FALSE(read_metric_value(text)) << text;
}

// Two samples of one metric, 100 µs apart, and a few counters. Expected values are computed by hand.
MetricsRegistry& small_device(MetricsRegistry& metrics) {
  metrics.add(XlaMetric::kExecuteTime, 1'500'000, 10'000);
  metrics.add(XlaMetric::kExecuteTime, 500'000, 110'000);
  metrics.add(XlaMetric::kOutboundData, 4096, 5);
  metrics.add(XlaMetric::kTensorsGraphSize, 38, 7);
  metrics.add(XlaMetric::kTensorsGraphSize, 40, 8);
  metrics.count(XlaCounter::kMarkStep, 3);
  metrics.count(XlaCounter::kUncachedCompile);
  metrics.count_op(1, 2);
  return metrics;
}

TEST(XlaReport, SnapshotIsInTheOrderOfTorchXla) {
  MetricsRegistry metrics({"xla::mm", "xla::add"});
  const MetricsReport report = report_of(small_device(metrics).snapshot());
  EXPECT_EQ(report_text(report, DurationStyle::kExact),
            "Metric: TensorsGraphSize\n"
            "  TotalSamples: 2\n"
            "  Accumulator: 78.00\n"
            "  ValueRate: 78000000000.00 / second\n"
            "  Rate: 2e+09 / second\n"
            "  Percentiles: 1%=38.00; 5%=38.00; 10%=38.00; 20%=38.00; 50%=40.00; 80%=40.00; 90%=40.00; 95%=40.00; "
            "99%=40.00\n"
            "Counter: UncachedCompile\n"
            "  Value: 1\n"
            "Counter: xla::add\n"
            "  Value: 2\n"
            "Metric: ExecuteTime\n"
            "  TotalSamples: 2\n"
            "  Accumulator: 002ms000.000us\n"
            "  ValueRate: 20s000ms000.000us / second\n"
            "  Rate: 20000 / second\n"
            "  Percentiles: 1%=500.000us; 5%=500.000us; 10%=500.000us; 20%=500.000us; 50%=001ms500.000us; "
            "80%=001ms500.000us; 90%=001ms500.000us; 95%=001ms500.000us; 99%=001ms500.000us\n"
            "Metric: OutboundData\n"
            "  TotalSamples: 1\n"
            "  Accumulator: 4.00KB\n"
            "  Percentiles: 1%=4.00KB; 5%=4.00KB; 10%=4.00KB; 20%=4.00KB; 50%=4.00KB; 80%=4.00KB; 90%=4.00KB; "
            "95%=4.00KB; 99%=4.00KB\n"
            "Counter: MarkStep\n"
            "  Value: 3\n");
  EXPECT_NE(report_text(report, DurationStyle::kUpstream).find("50%=002ms500.000us"), std::string::npos);
  EXPECT_EQ(report.samples("ExecuteTime"), 2);
  EXPECT_EQ(report.samples("CompileTime"), 0);
  EXPECT_EQ(report.metric("CompileTime"), nullptr);
  EXPECT_EQ(report.counter("MarkStep"), 3);
  EXPECT_EQ(report.counter("xla::mm"), 0);
  EXPECT_EQ(report.counter("unheard of"), 0);
}

// With 3000 samples, rates and percentiles are of the last 1024, and Rate · TotalSamples is not Accumulator.
TEST(XlaReport, RatesAndPercentilesAreOfTheLastSamples) {
  MetricsRegistry metrics;
  for (int64_t i = 1; i <= 3000; ++i) metrics.add(XlaMetric::kExecuteTime, i * 1000, i * 1'000'000);
  const double fractions[] = {0.001, 0.5, 0.999};
  const MetricsReport report = report_of(metrics.snapshot(), fractions);
  const ReportMetric& time = *report.metric("ExecuteTime");
  EXPECT_EQ(time.total_samples, 3000);
  EXPECT_EQ(time.accumulator, 1000.0 * 3000 * 3001 / 2);
  const double seconds = 1.023;
  EXPECT_DOUBLE_EQ(*time.rate, 1024 / seconds);
  EXPECT_DOUBLE_EQ(*time.value_rate, 1000.0 * (1977 + 3000) / 2 * 1024 / seconds);
  EXPECT_EQ(time.percentiles, (std::vector<Percentile>{{0.1, 1978e3}, {50, (1977 + 512) * 1e3}, {99.9, 2999e3}}));
}

TEST(XlaReport, JsonHasZerosAndRoundTrips) {
  MetricsRegistry metrics({"xla::mm", "xla::add"});
  const std::string empty = json::compact(report_json(report_of(metrics.snapshot())));
  EXPECT_NE(
      empty.find(R"("CompileTime":{"kind":"time","count":0,"sum":0,"value_rate":null,"rate":null,"percentiles":{}})"),
      std::string::npos)
      << empty;
  const MetricsReport report = report_of(small_device(metrics).snapshot());
  const std::string document = json::compact(report_json(report));
  for (const char* part : {R"("OutboundData":{"kind":"bytes","count":1,"sum":4096,"value_rate":null,"rate":null,)",
                           R"("percentiles":{"1":4096,"5":4096)", R"("xla::mm":0)", R"("xla::add":2)"}) {
    EXPECT_NE(document.find(part), std::string::npos) << document;
  }
  const auto back = report_of_json(json::parse(document));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, report);
}

TEST(XlaReport, RejectsOtherJson) {
  const std::string metric = R"({"kind": "time", "count": 1, "sum": 2, "percentiles": {"50": 2}})";
  const auto document = [](const std::string& of_metric, const std::string& of_counter) {
    return json::parse(R"({"metrics": {"A": )" + of_metric + R"(}, "counters": {"B": )" + of_counter + "}}");
  };
  EXPECT_TRUE(report_of_json(document(metric, "3")));
  for (const char* text :
       {"null", "3", "[]", "{}", R"({"kind": "hours", "count": 1, "sum": 2, "percentiles": {}})",
        R"({"kind": "time", "count": 1.5, "sum": 2, "percentiles": {}})",
        R"({"kind": "time", "count": 1, "percentiles": {}})", R"({"kind": "time", "count": 1, "sum": 2})",
        R"({"kind": "time", "count": 1, "sum": 2, "percentiles": {"x": 2}})",
        R"({"kind": "time", "count": 1, "sum": 2, "percentiles": {"50": "2"}})"}) {
    EXPECT_FALSE(report_of_json(document(text, "3"))) << text;
  }
  EXPECT_FALSE(report_of_json(document(metric, "\"3\"")));
  for (const char* text : {"null", "[]", "{}", R"({"metrics": {}})", R"({"metrics": {}, "counters": []})"}) {
    EXPECT_FALSE(report_of_json(json::parse(text))) << text;
  }
}

TEST(XlaDialect, Release17HasOneBlockAndItsOwnNames) {
  backends::tpu::MetricsSnapshot snapshot;
  for (const char* name :
       {"CompileTime", "TransferFromDeviceTime", "DeviceLockWait", "LazyTracing", "PersistentCacheLoad"})
    snapshot.metrics.push_back({name, MetricKind::kTime, 1, 5000, {{0, 5000}}});
  for (const char* name : {"MarkStep", "CachedCompile", "aten::_local_scalar_dense", "PersistentCacheHit"})
    snapshot.counters.push_back({name, 2});
  const std::string now = report_text(report_of(snapshot), DurationStyle::kExact);
  EXPECT_LT(now.find("Counter: CachedCompile"), now.find("Metric: CompileTime"))
      << "the counters of tracing come first";
  std::vector<std::string> names;
  const MetricsReport before = as_in_1_7(report_of(snapshot));
  for (const ReportMetric& metric : before.metrics) names.push_back(metric.name);
  EXPECT_EQ(names, (std::vector<std::string>{"CompileTime", "DeviceLockWait", "TransferFromServerTime"}));
  names.clear();
  for (const ReportCounter& counter : before.counters) names.push_back(counter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"CachedCompile", "MarkStep", "aten::_local_scalar_dense"}));
  const std::string text = report_text(before, DurationStyle::kExact);
  EXPECT_GT(text.find("Counter: CachedCompile"), text.find("Metric: TransferFromServerTime"))
      << "counters follow metrics in the same block";
  EXPECT_EQ(text.find("Metric: CompileTime"), 0U);
}

}  // namespace
}  // namespace runner::report::xla
