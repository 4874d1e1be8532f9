// Metrics of a device: tables, rings, threads.
#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backends/tpu/metrics.h"

namespace runner::backends::tpu {
namespace {

MetricSnapshot snapshot_of(const MetricsRegistry& metrics, XlaMetric metric) {
  return metrics.snapshot().metrics[static_cast<size_t>(metric)];
}

TEST(TpuMetrics, HaveTheNamesOfPyTorchXla) {
  const struct {
    XlaMetric metric;
    const char* name;
    MetricKind kind;
    MetricGroup group;
  } metrics[] = {
      {XlaMetric::kCompileTime, "CompileTime", MetricKind::kTime, MetricGroup::kRuntime},
      {XlaMetric::kExecuteTime, "ExecuteTime", MetricKind::kTime, MetricGroup::kRuntime},
      {XlaMetric::kDeviceLockWait, "DeviceLockWait", MetricKind::kTime, MetricGroup::kTracing},
      {XlaMetric::kTensorsGraphSize, "TensorsGraphSize", MetricKind::kValue, MetricGroup::kTracing},
      {XlaMetric::kInputOutputAliasCount, "InputOutputAliasCount", MetricKind::kValue, MetricGroup::kTracing},
      {XlaMetric::kTransferToDeviceTime, "TransferToDeviceTime", MetricKind::kTime, MetricGroup::kRuntime},
      {XlaMetric::kTransferFromDeviceTime, "TransferFromDeviceTime", MetricKind::kTime, MetricGroup::kRuntime},
      {XlaMetric::kOutboundData, "OutboundData", MetricKind::kBytes, MetricGroup::kRuntime},
      {XlaMetric::kInboundData, "InboundData", MetricKind::kBytes, MetricGroup::kRuntime},
      {XlaMetric::kTensorToData, "TensorToData", MetricKind::kTime, MetricGroup::kTracing},
      {XlaMetric::kLazyTracing, "LazyTracing", MetricKind::kTime, MetricGroup::kTracing},
      {XlaMetric::kPersistentCacheLoad, "PersistentCacheLoad", MetricKind::kTime, MetricGroup::kTracing},
      {XlaMetric::kEagerOpCompileTime, "EagerOpCompileTime", MetricKind::kTime, MetricGroup::kRuntime},
      {XlaMetric::kEagerOpExecuteTime, "EagerOpExecuteTime", MetricKind::kTime, MetricGroup::kRuntime},
  };
  ASSERT_EQ(std::size(metrics), kMetricCount);
  for (const auto& expected : metrics) {
    const MetricRow& row = row_of(expected.metric);
    EXPECT_EQ(row.name, expected.name);
    EXPECT_EQ(row.kind, expected.kind) << row.name;
    EXPECT_EQ(row.group, expected.group) << row.name;
    EXPECT_EQ(group_of(row.name), expected.group) << row.name;
  }
  const std::pair<XlaCounter, const char*> counters[] = {
      {XlaCounter::kUncachedCompile, "UncachedCompile"},
      {XlaCounter::kCachedCompile, "CachedCompile"},
      {XlaCounter::kCreateCompileHandles, "CreateCompileHandles"},
      {XlaCounter::kMarkStep, "MarkStep"},
      {XlaCounter::kExecuteComputation, "ExecuteComputation"},
      {XlaCounter::kDeviceDataCacheMiss, "DeviceDataCacheMiss"},
      {XlaCounter::kPersistentCacheHit, "PersistentCacheHit"},
      {XlaCounter::kPersistentCacheMiss, "PersistentCacheMiss"},
      {XlaCounter::kPersistentCacheDeserializeFailure, "PersistentCacheDeserializeFailure"},
      {XlaCounter::kLocalScalarDense, "aten::_local_scalar_dense"},
  };
  ASSERT_EQ(std::size(counters), kCounterCount);
  for (const auto& [counter, name] : counters) EXPECT_EQ(row_of(counter).name, name);
  for (const char* name : {"MarkStep", "CreateCompileHandles"}) EXPECT_EQ(group_of(name), MetricGroup::kRuntime);
  for (const char* name : {"CachedCompile", "xla::add"}) EXPECT_EQ(group_of(name), MetricGroup::kTracing);
}

TEST(TpuMetrics, SnapshotsIncludeUnusedEntries) {
  const MetricsSnapshot snapshot = MetricsRegistry({"xla::add"}).snapshot();
  ASSERT_EQ(snapshot.metrics.size(), kMetricCount);
  ASSERT_EQ(snapshot.counters.size(), kCounterCount + 1);
  std::set<std::string> names;
  for (const MetricSnapshot& metric : snapshot.metrics) {
    EXPECT_EQ(metric.count, 0);
    EXPECT_EQ(metric.sum, 0);
    EXPECT_TRUE(metric.ring.empty());
    EXPECT_EQ(metric.window_ns(), 0);
    names.insert(metric.name);
  }
  for (const CounterSnapshot& counter : snapshot.counters) {
    EXPECT_EQ(counter.value, 0);
    names.insert(counter.name);
  }
  EXPECT_EQ(names.size(), kMetricCount + kCounterCount + 1);
}

TEST(TpuMetrics, CountByIndex) {
  MetricsRegistry metrics({"xla::add", "xla::mm"});
  metrics.count(XlaCounter::kMarkStep);
  metrics.count(XlaCounter::kMarkStep, 4);
  metrics.count_op(1);
  metrics.count_op(1, 2);
  EXPECT_EQ(metrics.value(XlaCounter::kMarkStep), 5);
  EXPECT_EQ(metrics.value(XlaCounter::kCachedCompile), 0);
  const auto counters = metrics.snapshot().counters;
  EXPECT_EQ(counters[static_cast<size_t>(XlaCounter::kMarkStep)], (CounterSnapshot{"MarkStep", 5}));
  EXPECT_EQ(counters[kCounterCount], (CounterSnapshot{"xla::add", 0}));
  EXPECT_EQ(counters[kCounterCount + 1], (CounterSnapshot{"xla::mm", 3}));
}

// Count and sum cover all samples; the ring and its time window cover the latest 1024.
TEST(TpuMetrics, KeepARingOfTheLatestSamples) {
  MetricsRegistry metrics;
  std::vector<MetricSample> all;
  int64_t sum = 0;
  for (int64_t i = 0; i < 2500; ++i) {
    all.push_back({1'000 + 10 * i, i * i % 977});
    sum += all.back().value;
    metrics.add(XlaMetric::kOutboundData, all.back().value, all.back().at_ns);
    if (i != 0 && i != 1022 && i != 1023 && i != 1024 && i != 2047 && i != 2499) continue;
    const MetricSnapshot snapshot = snapshot_of(metrics, XlaMetric::kOutboundData);
    EXPECT_EQ(snapshot.count, i + 1);
    EXPECT_EQ(snapshot.sum, sum);
    const int64_t kept = std::min<int64_t>(i + 1, 1024);
    EXPECT_EQ(snapshot.ring, std::vector<MetricSample>(all.end() - kept, all.end())) << i;
    EXPECT_EQ(snapshot.window_ns(), 10 * (kept - 1));
  }
}

TEST(TpuMetrics, TimeASection) {
  MetricsRegistry metrics;
  const int64_t before = monotonic_ns();
  { const TimedSection section(metrics, XlaMetric::kCompileTime); }
  const int64_t after = monotonic_ns();
  const MetricSnapshot time = snapshot_of(metrics, XlaMetric::kCompileTime);
  ASSERT_EQ(time.count, 1);
  EXPECT_GE(time.sum, 0);
  EXPECT_LE(time.sum, after - before);
  EXPECT_GE(time.ring[0].at_ns, before);
  EXPECT_LE(time.ring[0].at_ns, after);
}

// A host thread and a device thread update the same entries while a third one reads: nothing is lost, and each entry of
// a snapshot is consistent in itself.
TEST(TpuMetrics, CanBeUpdatedConcurrently) {
  constexpr int64_t kTimes = 20'000;
  MetricsRegistry metrics({"xla::add"});
  const auto work = [&] {
    for (int64_t i = 0; i < kTimes; ++i) {
      metrics.count(XlaCounter::kExecuteComputation);
      metrics.count_op(0);
      metrics.add(XlaMetric::kExecuteTime, 7, i);
    }
  };
  {
    const std::jthread host(work), device(work);
    for (int64_t seen = 0; seen < 2 * kTimes;) {
      const MetricSnapshot now = snapshot_of(metrics, XlaMetric::kExecuteTime);
      ASSERT_GE(now.count, seen);
      ASSERT_EQ(now.sum, 7 * now.count);
      ASSERT_EQ(now.ring.size(), static_cast<size_t>(std::min<int64_t>(now.count, 1024)));
      seen = now.count;
      std::this_thread::yield();
    }
  }
  EXPECT_EQ(metrics.value(XlaCounter::kExecuteComputation), 2 * kTimes);
  EXPECT_EQ(metrics.snapshot().counters[kCounterCount].value, 2 * kTimes);
}

}  // namespace
}  // namespace runner::backends::tpu
